"""What the ATen cost rules share: naming operators, counting elements, reading rows of a table. No rule of its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from simdevice.costs.registry import streamed
from simdevice.records import Cost, Signature, TensorSpec
from simdevice.records.dtypes import nbytes

__all__ = ["aten", "ceil_log2", "cost", "elements", "lookup", "unknown"]


def aten(names: str) -> tuple[str, ...]:
    """`"bmm mm"` as ("aten.bmm", "aten.mm"), so that a table of names stays readable."""
    return tuple(f"aten.{name}" for name in names.split())


def elements(tensors: Iterable[TensorSpec]) -> int:
    """Elements of all tensors together."""
    return sum(t.numel for t in tensors)


def ceil_log2(count: int) -> int:
    """Comparisons that find one place among `count`: the logarithm to base 2, rounded up."""
    return max(count - 1, 0).bit_length()


def cost(category: str, flops: int, read: Sequence[TensorSpec], written: Sequence[TensorSpec]) -> Cost:
    """Where not every input is read: one that is overwritten, or named only for its shape, moves no bytes."""
    return Cost(
        category,
        flops,
        bytes_read=sum(t.nbytes for t in read),
        bytes_written=sum(t.nbytes for t in written),
        weight_bytes=sum(t.nbytes for t in read if t.is_weight),
    )


def unknown(signature: Signature, reason: str) -> Cost:
    """Charged for its bytes; FLOPs unknown, with the reason that every report shows."""
    return streamed(signature, "unknown", None, reason=reason)


def lookup(signature: Signature, picked: int, *, table: int = 0, flops: int = 0) -> Cost:
    """Reads `picked` elements of the input number `table` and all of every other input."""
    source = signature.inputs[table]
    rows = nbytes((picked,), source.dtype)
    others = [t for i, t in enumerate(signature.inputs) if i != table]
    return Cost(
        "gather",
        flops,
        bytes_read=rows + sum(t.nbytes for t in others),
        bytes_written=sum(t.nbytes for t in signature.outputs),
        weight_bytes=(rows if source.is_weight else 0) + sum(t.nbytes for t in others if t.is_weight),
    )
