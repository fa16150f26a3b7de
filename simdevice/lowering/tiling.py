"""Cut one stage of work into the tiles of a machine: the rules, written to be read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product as cross
from math import prod

from simdevice.errors import LoweringError
from simdevice.lowering.rates import Rates
from simdevice.lowering.work import Blocks, Stage, Stream, Transfer
from simdevice.records import UNITS, Product
from simdevice.units import ceil_div

__all__ = ["MOST_TILES", "Blocking", "Tile", "blocking", "cut"]

Tile = tuple[int, int, int, int, int, int, int]
"""Load, compute and store ticks, operand and result bytes, work, unit: the columns of records.Tiles."""

MOST_TILES = 2**24
"""Of one operator: beyond this the buffer is a mistake."""

_ARRAY, _VECTOR, _LINK = (UNITS.index(u) for u in ("array", "vector", "link"))


def cut(stage: Stage, rates: Rates) -> list[Tile]:
    """The tiles of one stage, in the order they are loaded.

    Raises:
        LoweringError: no tile of this stage fits what a tile may use of the buffer.
    """
    if isinstance(stage, Transfer):
        return [(0, rates.link_ticks(stage.link_bytes), 0, 0, 0, stage.link_bytes, _LINK)]
    if isinstance(stage, Stream):
        return list(_slices(stage, rates))
    return list(_blocks(stage, rates))


def _slices(stage: Stream, rates: Rates) -> Iterator[Tile]:
    """As few equal slices as fit: slice i of x bytes is x*(i+1)//n - x*i//n."""
    read, written = stage.read_bytes, stage.written_bytes
    _refuse((read > 0) + (written > 0), 1, rates)
    count = max(1, ceil_div(read + written, max(1, rates.tile_bytes)))
    while (need := ceil_div(read, count) + ceil_div(written, count)) > rates.tile_bytes and count < MOST_TILES:
        count += 1
    _refuse(need, count, rates)
    in_transit = rates.in_transit and (stage.load_ops or stage.store_ops)
    work = (0, stage.load_ops, stage.store_ops) if in_transit else (stage.work, 0, 0)
    totals = (read, written, *work)
    for i in range(count):
        load, store, lane_ops, load_ops, store_ops = (x * (i + 1) // count - x * i // count for x in totals)
        yield (
            rates.transfer_ticks(load, load_ops),
            rates.vector_ticks(lane_ops),
            rates.transfer_ticks(store, store_ops),
            load,
            store,
            lane_ops,
            _VECTOR,
        )


@dataclass(frozen=True, slots=True)
class Blocking:
    """How a product is cut: the size of a block, how many blocks along each dimension (batch, m, n, k), and the bytes
    beside its operands that its blocks share out between them."""

    block: tuple[int, int, int, int]
    steps: tuple[int, int, int, int]
    beside: int

    @property
    def tiles(self) -> int:
        return prod(self.steps)


def blocking(stage: Blocks, rates: Rates) -> Blocking:
    """1. Halve (rounding up) the largest of bm, bn, bk, preferring them in this order, until operands, result and
    the block's share of what is read beside them fit. 2. If nothing was halved, as many batch items as fit share a
    tile.

    Raises:
        LoweringError: no block fits, or too many are needed.
    """
    product = stage.product
    beside = stage.read_bytes if rates.all_operands else 0
    bm, bn, bk = product.m, product.n, product.k

    def steps(bb: int) -> tuple[int, int, int, int]:
        return ceil_div(product.batch, bb), ceil_div(product.m, bm), ceil_div(product.n, bn), ceil_div(product.k, bk)

    def need(bb: int) -> int:
        return bb * sum(_block_bytes(product, 1, bm, bk, bn)) + ceil_div(beside, prod(steps(bb)))

    while need(1) > rates.tile_bytes and max(bm, bn, bk) > 1:
        largest = max(bm, bn, bk)
        if bm == largest:
            bm = ceil_div(bm, 2)
        elif bn == largest:
            bn = ceil_div(bn, 2)
        else:
            bk = ceil_div(bk, 2)
    bb = 1
    if (bm, bn, bk) == (product.m, product.n, product.k):
        # Both terms of the need grow or stay with bb up to the batch, so bisection finds the most that fits.
        low, high = 1, product.batch
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if need(middle) <= rates.tile_bytes else (low, middle - 1)
        bb = low
    chosen = Blocking((bb, bm, bn, bk), steps(bb), beside)
    _refuse(need(bb), chosen.tiles, rates)
    return chosen


def _blocks(stage: Blocks, rates: Rates) -> Iterator[Tile]:
    """Loop over batch, m, n, k. A tile that is not the last of its k stores nothing: its partial sum is a result that
    is released when its compute ends."""
    product, cutting = stage.product, blocking(stage, rates)
    (bb, bm, bn, bk), steps = cutting.block, cutting.steps
    for i, (b, row, column, depth) in enumerate(cross(*(range(s) for s in steps))):
        batch, m = min(bb, product.batch - b * bb), min(bm, product.m - row * bm)
        n, k = min(bn, product.n - column * bn), min(bk, product.k - depth * bk)
        left, right, result = _block_bytes(product, batch, m, k, n)
        share = cutting.beside * (i + 1) // cutting.tiles - cutting.beside * i // cutting.tiles
        last = depth == steps[3] - 1
        yield (
            rates.transfer_ticks(left + right + share),
            rates.array_ticks(batch, m, k, n),
            rates.transfer_ticks(result) if last else 0,
            left + right + share,
            result,
            batch * m * k * n,
            _ARRAY,
        )


def _block_bytes(product: Product, batch: int, m: int, k: int, n: int) -> tuple[int, int, int]:
    """Both operands and the result, each rounded up to whole bytes."""
    return (
        ceil_div(product.a_bits * batch * m * k, 8),
        ceil_div(product.b_bits * batch * k * n, 8),
        ceil_div(product.out_bits * batch * m * n, 8),
    )


def _refuse(need: int, tiles: int, rates: Rates) -> None:
    allowed = f"{rates.tile_bytes} of the buffer's {rates.buffer_bytes} bytes"
    if need > rates.tile_bytes:
        raise LoweringError(
            f"its smallest tile needs {need} bytes, a tile may use {allowed}: enlarge buffer_bytes or tile_fraction"
        )
    if tiles > MOST_TILES:
        raise LoweringError(
            f"it would be {tiles} tiles, more than {MOST_TILES}; a tile may use {allowed}: enlarge buffer_bytes"
        )
