"""Every change to PyTorch's own classes, in one place: what is replaced, why, and how it is put back.

A patch is a function that gets what stood there and gives what stands there now; its docstring is the reason.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
from torch.multiprocessing.reductions import reduce_storage, reduce_tensor
from torch.nn.attention.flex_attention import flex_attention

from simdevice.torch_backend import scopes
from simdevice.torch_backend.placement import touches_simacc
from simdevice.torch_backend.process import PROCESS

__all__ = ["PATCHES", "Patch", "install", "undo"]


@dataclass(frozen=True, slots=True)
class Patch:
    """`place` holds, under `key`, what `replacement` makes out of what was there; a dictionary or a class's attributes.

    1. `apply` replaces. 2. `undo` puts back what was there, unless somebody else has replaced it in the meantime:
    theirs calls ours, so both stay.
    """

    place: Any
    key: Any
    replacement: Callable[[Any], Any]

    def apply(self) -> tuple[Any, Any]:
        """What was there before (_NOTHING: nothing), and what is now."""
        before = self._read()
        after = self.replacement(before)
        self._write(after)
        return before, after

    def undo(self, before: Any, after: Any) -> None:
        if self._read() is after:
            self._write(before)

    def _read(self) -> Any:
        if isinstance(self.place, dict):
            return self.place.get(self.key, _NOTHING)
        return self.place.__dict__[self.key]

    def _write(self, value: Any) -> None:
        if not isinstance(self.place, dict):
            setattr(self.place, self.key, value)
        elif value is _NOTHING:
            del self.place[self.key]
        else:
            self.place[self.key] = value


_NOTHING = object()
_applied: list[tuple[Patch, Any, Any]] = []


def install() -> None:
    """Apply every patch. Once per process, or again after `undo`."""
    for patch in PATCHES:
        _applied.append((patch, *patch.apply()))


def undo() -> None:
    """Put back what `install` replaced, last first."""
    while _applied:
        patch, before, after = _applied.pop()
        patch.undo(before, after)


def _marks_weights(moved: Callable[..., Any]) -> Callable[..., Any]:
    """`module.to(device)` replaces `parameter.data` in place, and PyTorch has no hook for that: parameters that it
    brings to simacc would not count as weights."""

    @functools.wraps(moved)
    def _apply(self: Any, fn: Any, *args: Any, **kwargs: Any) -> Any:
        out = moved(self, fn, *args, **kwargs)
        PROCESS.native.mark_weights([p for p in self._parameters.values() if p is not None])
        return out

    return _apply


def _tells_backward_threads(set_number: Callable[[int], None]) -> Callable[[int], None]:
    """PyTorch sets the number of threads for the caller and for threads that start later. A backward pass on simacc has
    a thread of its own, which would keep its number and sum in another order than the CPU, whose pass runs in the
    caller's."""

    @functools.wraps(set_number)
    def set_num_threads(*args: Any, **kwargs: Any) -> None:
        set_number(*args, **kwargs)
        PROCESS.native.threads_set()

    return set_num_threads


def _compiles_for_simacc(compiled: Callable[..., Any]) -> Callable[..., Any]:
    """`torch.compile` without a backend means Inductor, which can't generate code for simacc: what touches the device
    goes to the simacc backend instead."""

    @functools.wraps(compiled)
    def __call__(self: Any, model_: Any, inputs_: Any, **patches: Any) -> Any:
        if touches_simacc(model_, inputs_):
            # Late: it brings Dynamo and AOTAutograd, which only programs that compile load.
            from simdevice.torch_backend import compile_backend

            return compile_backend.simacc(model_, inputs_)
        return compiled(self, model_, inputs_, **patches)

    return __call__


def _hides_hooks(init: Callable[..., None]) -> Callable[..., None]:
    """Dynamo may be loaded while a recording's module hooks are installed already, and would break its graphs at them:
    they are hidden when the first program asks for a compilation."""

    @functools.wraps(init)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        scopes.hide_from_dynamo()
        init(self, *args, **kwargs)

    return __init__


def _allows_flex_attention(validate: Callable[..., None]) -> Callable[..., None]:
    """PyTorch has flex_attention on a closed list of device types. On simacc it is the CPU's: no gradients."""

    @functools.wraps(validate)
    def _validate_device(query: Any, key: Any, value: Any) -> None:
        if query.device.type != "simacc":
            validate(query, key, value)
        elif query.requires_grad or key.requires_grad or value.requires_grad:
            raise NotImplementedError(
                "flex_attention on simacc is the CPU's kernel, which has no backward: give it tensors that need no "
                "gradient, or use scaled_dot_product_attention"
            )

    return _validate_device


def _sends_by_value(reduce: Any) -> Callable[[Any], Any]:
    """Tensors go to other processes by value, through storages of the CPU: PyTorch's own way shares memory, which the
    other process's device would not know, and hangs where it fails. A storage goes whole and once per message, so that
    views keep their strides, and tensors that share memory share it there."""

    def by_value(tensor: Any) -> Any:
        if tensor.device.type != "simacc":
            return (reduce_tensor if reduce is _NOTHING else reduce)(tensor)
        if tensor.requires_grad and not tensor.is_leaf:
            raise RuntimeError("a tensor that autograd follows can't go to another process: send tensor.detach()")
        if tensor.is_nested or tensor.layout is not torch.strided:
            return _received_whole, (tensor.detach().cpu(), tensor.requires_grad)
        layout = (tensor.storage_offset(), tuple(tensor.shape), tensor.stride(), tensor.is_conj(), tensor.is_neg())
        parts = (type(tensor), tensor.untyped_storage(), tensor.dtype, layout, tensor.requires_grad)
        return _received, parts

    return by_value


def _sends_bytes(reduce: Any) -> Callable[[Any], Any]:
    """A storage on simacc goes to another process as its bytes: PyTorch's own way shares memory, as for tensors."""

    def by_value(storage: Any) -> Any:
        if storage.device.type != "simacc":
            return (reduce_storage if reduce is _NOTHING else reduce)(storage)
        return _received_bytes, (_bytes(storage).cpu(), storage.device.index)

    return by_value


def _bytes(storage: torch.UntypedStorage) -> torch.Tensor:
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)


def _received_bytes(on_host: torch.Tensor, index: int) -> torch.UntypedStorage:
    return on_host.to(torch.device("simacc", index)).untyped_storage()


def _received_whole(on_host: torch.Tensor, requires_grad: bool) -> torch.Tensor:
    return on_host.to("simacc").requires_grad_(requires_grad)


def _received(
    kind: type, storage: torch.UntypedStorage, dtype: torch.dtype, layout: tuple[Any, ...], requires_grad: bool
) -> torch.Tensor:
    offset, shape, strides, conjugate, negative = layout
    tensor = torch.empty(0, dtype=dtype, device=storage.device).set_(storage, offset, shape, strides)
    if conjugate:
        tensor = torch._conj(tensor)
    if negative:
        tensor = torch._neg_view(tensor)
    if kind is torch.nn.Parameter:
        return torch.nn.Parameter(tensor, requires_grad)
    return tensor.requires_grad_(requires_grad)


_flex: Any = sys.modules[flex_attention.__module__]
_inductor: Any = torch._TorchCompileInductorWrapper
_reducers: dict[type, Any] = ForkingPickler._extra_reducers  # type: ignore[attr-defined]  # where register() writes

PATCHES = (
    Patch(torch.nn.Module, "_apply", _marks_weights),
    Patch(torch, "set_num_threads", _tells_backward_threads),
    Patch(_inductor, "__call__", _compiles_for_simacc),
    Patch(_inductor, "__init__", _hides_hooks),
    Patch(torch._TorchCompileWrapper, "__init__", _hides_hooks),
    Patch(_flex, "_validate_device", _allows_flex_attention),
    Patch(_reducers, torch.Tensor, _sends_by_value),
    Patch(_reducers, torch.nn.Parameter, _sends_by_value),
    Patch(_reducers, torch.UntypedStorage, _sends_bytes),
)
