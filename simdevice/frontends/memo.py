"""Remember what a pure operator made of meta tensors: a model's layers ask the same questions again and
again, and PyTorch answers most of them in Python. Holds shapes, never tensors."""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["MetaMemo", "is_pure"]

_Recipe = tuple[tuple[int, ...], tuple[int, ...], torch.dtype]  # shape, strides, type
_Result = _Recipe | tuple[_Recipe | None, ...]
_UNSEEN: Any = object()


def is_pure(func: Any) -> bool:
    """Whether an operator's results are new tensors that depend on shapes, types and plain arguments only."""
    schema = func._schema
    if func.namespace != "aten" or schema.is_mutable or not schema.returns:
        return False
    if torch.Tag.data_dependent_output in func.tags or torch.Tag.dynamic_output_shape in func.tags:
        return False
    return all(str(r.type) == "Tensor" and r.alias_info is None for r in schema.returns)


class MetaMemo:
    """Calls pure operators on meta tensors; a call like an earlier one is answered from its shapes.

    1. A call is known by its operator, the shape, strides and type of each tensor, every other argument
       with its type (2 and 2.0 promote differently), and the default dtype.
    2. The first such call runs, and is remembered if its results are plain, whole tensors on storages of
       their own: an operator may return a view though its schema doesn't say so.
    3. Anything else (another device, a subclass, an argument that can't be compared) just runs.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], _Result | None] = {}

    def call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What `func(*args, **kwargs)` gives."""
        described: list[Any] = [func, torch.get_default_dtype()]
        for value in args:
            if not _describe(value, described):
                return func(*args, **kwargs)
        for name, value in kwargs.items():
            described.append(name)
            if not _describe(value, described):
                return func(*args, **kwargs)
        try:
            key = tuple(described)
            result = self._known.get(key, _UNSEEN)
        except TypeError:  # an argument that is no plain value
            return func(*args, **kwargs)
        if result is None:
            return func(*args, **kwargs)
        if result is _UNSEEN:
            out = func(*args, **kwargs)
            self._known[key] = _remember(out, (*args, *kwargs.values()))
            return out
        if result and isinstance(result[0], torch.Size):
            return _empty(result)
        return tuple(None if recipe is None else _empty(recipe) for recipe in result)


def _empty(recipe: Any) -> torch.Tensor:
    shape, strides, dtype = recipe
    return torch.empty_strided(shape, strides, dtype=dtype, device="meta")


def _describe(value: Any, described: list[Any]) -> bool:
    """Append what the result can depend on; False if that can't be said."""
    kind = value.__class__
    if kind is torch.Tensor or kind is torch.nn.Parameter:
        if not value.is_meta or value.layout is not torch.strided or value.is_conj() or value.is_neg():
            return False
        described += (value.shape, value.stride(), value.dtype)
        return True
    if kind is list or kind is tuple:
        described.append(len(value))
        return all(_describe(item, described) for item in value)
    if isinstance(value, torch.Tensor):
        return False
    described += (kind, value)
    return True


def _remember(out: Any, inputs: tuple[Any, ...]) -> _Result | None:
    """How to make these results again, or None where that isn't possible."""
    taken = {t.untyped_storage()._cdata for t in _tensors(inputs)}
    results = out if isinstance(out, tuple) else (out,)
    recipes: list[_Recipe | None] = []
    for result in results:
        if result is None:
            recipes.append(None)
            continue
        if not _is_whole(result) or result.untyped_storage()._cdata in taken:
            return None
        taken.add(result.untyped_storage()._cdata)
        recipes.append((result.shape, result.stride(), result.dtype))
    return tuple(recipes) if isinstance(out, tuple) else recipes[0]


def _is_whole(tensor: Any) -> bool:
    """A plain meta tensor that covers its storage, as `empty_strided` makes them."""
    if tensor.__class__ is not torch.Tensor or not tensor.is_meta or tensor.layout is not torch.strided:
        return False
    if tensor.is_conj() or tensor.is_neg() or tensor.storage_offset() != 0:
        return False
    spans = [(size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True)]
    elements = 0 if 0 in tensor.shape else 1 + sum(spans)
    return bool(tensor.untyped_storage().nbytes() == elements * tensor.element_size())


def _tensors(values: tuple[Any, ...] | list[Any]) -> list[torch.Tensor]:
    tensors: list[torch.Tensor] = []
    for value in values:
        if isinstance(value, torch.Tensor):
            tensors.append(value)
        elif isinstance(value, (list, tuple)):
            tensors += _tensors(value)
    return tensors
