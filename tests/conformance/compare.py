"""What "the same" means: dtype, shape, strides, bits (any NaN is any other), and what shares memory with what."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_flatten

_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def difference(expected: Any, actual: Any, *, contents: bool = True) -> str | None:
    """In a few words, how two trees of results part; None where they are the same.

    contents: False for operators that leave memory as it was.
    """
    left, left_spec = tree_flatten(expected)
    right, right_spec = tree_flatten(actual)
    if left_spec != right_spec:
        return f"structure {left_spec} against {right_spec}"
    for a, b in zip(left, right, strict=True):
        if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
            unlike = _tensors(a.detach(), b.detach(), contents=contents)
        else:
            unlike = None if _equal(a, b) else f"value {a!r} against {b!r}"
        if unlike is not None:
            return unlike
    return None


def sharing(results: Any, arguments: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Per tensor in `results`: the argument or earlier result that it is, or whose memory it shows, and where."""
    known: dict[int, str] = {}
    same: dict[int, str] = {}
    for i, t in enumerate(_strided(arguments)):
        known.setdefault(t.untyped_storage()._cdata, f"argument {i}")
        same.setdefault(id(t), f"argument {i}")
    out = []
    for i, t in enumerate(_strided(results)):
        memory = known.setdefault(t.untyped_storage()._cdata, f"result {i}")
        out.append((same.get(id(t)), memory, t.storage_offset(), t.is_conj(), t.is_neg(), t.requires_grad))
    return out


def _strided(tree: Any) -> list[torch.Tensor]:
    return [
        t
        for t in tree_flatten(tree)[0]
        if isinstance(t, torch.Tensor) and t.layout == torch.strided and not t.is_nested
    ]


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, torch.device):
        return isinstance(b, torch.device)
    if isinstance(a, float) and isinstance(b, float) and math.isnan(a):
        return math.isnan(b)
    return type(a) is type(b) and bool(a == b)


def _tensors(a: torch.Tensor, b: torch.Tensor, *, contents: bool) -> str | None:
    for what in ("dtype", "layout", "is_nested", "is_quantized"):
        if getattr(a, what) != getattr(b, what):
            return f"{what} {getattr(a, what)} against {getattr(b, what)}"
    if a.is_nested:
        return difference(a.unbind(), b.unbind(), contents=contents)
    if a.shape != b.shape:
        return f"shape {tuple(a.shape)} against {tuple(b.shape)}"
    if a.layout != torch.strided:
        return _tensors(a.to_dense(), b.cpu().to_dense(), contents=contents)
    if a.stride() != b.stride():
        return f"strides {a.stride()} against {b.stride()}"
    if not contents:
        return None
    unequal = _unequal(a, b.cpu())
    return None if unequal == 0 else f"{unequal} of {a.numel()} values"


def _unequal(a: torch.Tensor, b: torch.Tensor) -> int:
    """How many elements differ in their bits and are not both NaN."""
    a, b = (t.resolve_conj().resolve_neg().contiguous() for t in (a, b))
    if a.is_complex():
        return max(_unequal(torch.view_as_real(a)[..., i], torch.view_as_real(b)[..., i]) for i in (0, 1))
    if a.numel() == 0 or a.is_quantized:
        return 0 if torch.equal(a, b) else 1
    bits = _INTEGERS.get(a.element_size(), torch.uint8)
    unlike = a.view(bits) != b.view(bits)
    if unlike.any() and a.is_floating_point():
        wide = torch.float64 if a.element_size() > 1 else torch.float32
        unlike &= ~(a.to(wide).isnan() & b.to(wide).isnan())
    return int(unlike.sum())
