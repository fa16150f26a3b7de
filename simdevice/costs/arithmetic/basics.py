"""What every formula is made of: counting elements, reading parts of tensors, and a Cost from its products."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from simdevice.costs.registry import streamed
from simdevice.records import INSIDE, Cost, Extra, Product, Signature, TensorSpec, Window
from simdevice.records.dtypes import bits, nbytes

__all__ = [
    "ceil_log2",
    "contraction",
    "elements",
    "lookup",
    "moved",
    "product_of",
    "read_partly",
    "rows_of",
    "split_evenly",
    "unknown",
    "values_per_element",
]


def elements(tensors: Iterable[TensorSpec]) -> int:
    """Elements of all tensors together."""
    return sum(t.numel for t in tensors)


def ceil_log2(count: int) -> int:
    """Comparisons that find one place among `count`: the logarithm to base 2, rounded up."""
    return max(count - 1, 0).bit_length()


def split_evenly(total: int, groups: int) -> list[tuple[int, int]]:
    """(how many groups, rows of each) where which row meets which group is data: as even as whole rows allow."""
    groups = max(groups, 1)
    rows, longer = divmod(total, groups)
    return [(count, size) for count, size in ((longer, rows + 1), (groups - longer, rows)) if count and size]


def moved(category: str, flops: int, read: Sequence[TensorSpec], written: Sequence[TensorSpec]) -> Cost:
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


def lookup(signature: Signature, picked: int, *, table: int = 0, flops: int = 0, category: str = "gather") -> Cost:
    """Reads `picked` elements of input number `table`, and all of every other input."""
    source = signature.inputs[table]
    rows = nbytes((picked,), source.dtype)
    others = [t for i, t in enumerate(signature.inputs) if i != table]
    return Cost(
        category,
        flops,
        bytes_read=rows + sum(t.nbytes for t in others),
        bytes_written=sum(t.nbytes for t in signature.outputs),
        weight_bytes=(rows if source.is_weight else 0) + sum(t.nbytes for t in others if t.is_weight),
    )


def rows_of(table: TensorSpec, rows: int) -> int:
    """Bytes of so many of a table's rows; as many as it has is the most that can be read."""
    return nbytes((min(rows, table.shape[0]), *table.shape[1:]), table.dtype)


def read_partly(signature: Signature, cost: Cost, read: Mapping[int, int]) -> Cost:
    """A pass's cost where it reads only so many bytes of some inputs, by their places."""
    bytes_of = {i: t.nbytes for i, t in enumerate(signature.inputs)} | dict(read)
    weights = sum(bytes_of[i] for i, t in enumerate(signature.inputs) if t.is_weight)
    return replace(cost, bytes_read=sum(bytes_of.values()), weight_bytes=weights)


def values_per_element(tensor: TensorSpec) -> int:
    """Two where PyTorch packs a pair into one element."""
    return 2 if tensor.dtype.endswith("_x2") else 1


Place = int | tuple[int, ...]


def _places(place: Place) -> tuple[int, ...]:
    return (place,) if isinstance(place, int) else place


def product_of(
    signature: Signature,
    dims: tuple[int, int, int, int],
    a: Place,
    b: Place,
    out: Place = INSIDE,
    *,
    chained: bool = False,
    window: Window | None = None,
    windowed: str = "",
    packed: bool = False,
) -> Product:
    """A product of the call's tensors by their places; what lies INSIDE has the type of the first input.

    `packed`: operands may hold several values per element, so their bits follow from their bytes.
    """
    batch, m, k, n = dims
    inner = bits((signature.inputs or signature.outputs)[0].dtype)
    a, b, out = _places(a), _places(b), _places(out)

    def width(tensors: Sequence[TensorSpec], place: tuple[int, ...], count: int) -> int:
        if not place:
            return inner
        tensor = tensors[place[0]]
        whole = bits(tensor.dtype) // values_per_element(tensor)
        # e.g. 64 x 32 four-bit values in 64 x 16 bytes; scales in the same buffer are left to the rest that is read
        return min(whole, max(1, 8 * tensor.nbytes // max(count, 1))) if packed else whole

    return Product(
        batch,
        m,
        k,
        n,
        width(signature.inputs, a, m * k * batch),
        width(signature.inputs, b, k * n * batch),
        bits(signature.outputs[out[0]].dtype) if out else inner,
        chained,
        a,
        b,
        out,
        window=window,
        windowed=windowed,
    )


def contraction(
    signature: Signature,
    category: str,
    products: Iterable[Product],
    extras: Iterable[Extra] = (),
    *,
    read: Mapping[int, int] | None = None,
    written: int | None = None,
) -> Cost:
    """The Cost of an operator made of products.

    1. FLOPs are the products' and the extras'.
    2. Every input is read once, but for the inputs in `read`, which says how many bytes of each; the first `written`
       outputs are written once (None: all).
    3. Each byte read or written belongs to the first product that has its tensor as an operand, as far as that
       operand reaches; the rest (biases, addends, scales) belongs to none.
    """
    reads = {i: t.nbytes for i, t in enumerate(signature.inputs)} | dict(read or {})
    writes = {i: t.nbytes for i, t in enumerate(signature.outputs[:written])}
    left, unstored = dict(reads), dict(writes)
    stated = []
    for one in products:
        if not one.flops:
            continue
        stated.append(
            replace(
                one,
                a_bytes=_take(left, one.a, one.a_loaded),
                b_bytes=_take(left, one.b, one.b_loaded),
                out_bytes=_take(unstored, one.out, one.out_stored),
            )
        )
    extras = tuple(extra for extra in extras if extra.flops)
    return Cost(
        category,
        sum(p.flops for p in stated) + sum(extra.flops for extra in extras),
        bytes_read=sum(reads.values()),
        bytes_written=sum(writes.values()),
        weight_bytes=sum(reads[i] for i, t in enumerate(signature.inputs) if t.is_weight),
        products=tuple(stated),
        extras=extras,
    )


def _take(left: dict[int, int], places: tuple[int, ...], reach: int) -> int:
    """Take from what is left of these tensors' bytes, at most what the operand reaches."""
    taken = 0
    for place in places:
        share = min(left.get(place, 0), reach - taken)
        if share:
            left[place] -= share
            taken += share
    return taken
