"""What an operator gives a machine to do, before any machine is known: products, streams and link transfers.

Read off what the cost rule stated; nothing here decodes shapes or knows an operator's name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from simdevice.records import FREE_CATEGORIES, Cost, OpTable, Product, Signature

__all__ = ["ROW_KINDS", "Blocks", "Stage", "Stream", "Transfer", "WorkTable", "work_of"]

ROW_KINDS = ("operator", "view", "synchronize", "record_event", "wait_event", "synchronize_event")
"""What a row of a trace is to the lowering. Only operators become tiles."""

_ORDER_ROWS = {f"simacc.{kind}": kind for kind in ROW_KINDS[2:]}


STATED = frozenset({"attention", "convolution", "fft", "matmul"})
"""Categories in which rules state their work: products, or lane operations that are not the FLOPs."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """A product for the array, cut into blocks. `read_bytes` are what the operator reads beside all its operands
    (biases, addends, scales), loaded once, a share with each block, by a machine that loads every operand."""

    product: Product
    read_bytes: int = 0

    @property
    def chained(self) -> bool:
        return self.product.chained


@dataclass(frozen=True, slots=True)
class Stream:
    """Bytes in, work on the vector lanes, bytes out, cut into equal slices.

    `work` counts lane operations. `load_ops` and `store_ops` can be done on the data in flight instead, by a machine
    that can. A chained one follows the operator's products.
    """

    read_bytes: int
    written_bytes: int
    work: int
    load_ops: int = 0
    store_ops: int = 0
    chained: bool = False


@dataclass(frozen=True, slots=True)
class Transfer:
    """Bytes over the link between host and device."""

    link_bytes: int
    chained: ClassVar[bool] = False


Stage = Blocks | Stream | Transfer


def work_of(signature: Signature, cost: Cost) -> tuple[Stage, ...]:
    """The stages of one operator; none where it has nothing to do.

    1. Views and order rows: none. Transfers: the link.
    2. What states products: each of them; the first brings what is read beside all operands. After the last, one
       pass of the lanes for extras that are staged and for what is written beside the products' results.
    3. All else, operators without a rule included: a stream of the cost's bytes, whose lane operations are the
       rule's, or max(FLOPs, output elements).
    """
    if cost.category in FREE_CATEGORIES:
        return ()
    if cost.category == "transfer":
        return (Transfer(cost.bytes),) if cost.bytes else ()
    if cost.products:
        return _contraction(cost)
    work = cost.lane_ops
    if work is None:
        work = max(cost.flops or 0, sum(t.numel for t in signature.outputs))
    if not (cost.bytes or cost.flops):
        return ()
    return (Stream(cost.bytes_read, cost.bytes_written, work, load_ops=cost.in_flight_ops),)


def _contraction(cost: Cost) -> tuple[Stage, ...]:
    beside = cost.bytes_read - sum(p.a_bytes + p.b_bytes for p in cost.products)
    unstored = cost.bytes_written - sum(p.out_bytes for p in cost.products)
    staged = sum(extra.flops for extra in cost.extras if extra.staged)
    stages: list[Stage] = [Blocks(p, 0 if i else beside) for i, p in enumerate(cost.products)]
    if staged or unstored:
        stages.append(Stream(0, unstored, staged, chained=True))
    return tuple(stages)


class WorkTable:
    """The stages of every signature of a (growing) table, as objects and as columns.

    Columns of int64: `row_kind` (index into ROW_KINDS), `inputs`, `outputs` per signature; `first_stage`
    (one entry more); `stages`, one row of STAGE_COLUMNS per stage.

    `restate` costs a signature of a category in STATED whose cost states no work, as files do that were written
    before rules did; it is believed where it counts the same FLOPs and bytes.
    """

    STAGE_COLUMNS = (
        *("kind", "batch", "m", "k", "n", "a_bits", "b_bits", "out_bits", "chained"),
        *("read_bytes", "written_bytes", "work", "load_ops", "store_ops"),
    )
    KINDS = (Blocks, Stream, Transfer)

    def __init__(self, table: OpTable, restate: Callable[[Signature], Cost] | None = None) -> None:
        self.table, self._restate = table, restate
        self.stages: list[tuple[Stage, ...]] = []
        self.columns: dict[str, NDArray[np.int64]] = {}
        self.extend()

    @classmethod
    def of(cls, table: OpTable, restate: Callable[[Signature], Cost] | None = None) -> WorkTable:
        """The table's own, made once and kept with it."""
        known: WorkTable | None = table.derived.get(cls)
        if known is None:
            known = table.derived[cls] = cls(table, restate)
        known.extend()
        return known

    def extend(self) -> None:
        """Take in signatures that the table has gained."""
        known = len(self.stages)
        if known == len(self.table) and self.columns:
            return
        fresh = list(zip(self.table.signatures[known:], self.table.costs[known:], strict=True))
        stages = [work_of(s, self._stated(s, c)) for s, c in fresh]
        self.stages += stages
        counts = np.array([len(s) for s in self.stages], np.int64)
        rows = np.array([_packed(s) for group in stages for s in group], np.int64).reshape(-1, len(self.STAGE_COLUMNS))
        kinds = np.array([_row_kind(s, c) for s, c in fresh], np.int64)
        old = self.columns
        self.columns = {
            "row_kind": np.concatenate([old["row_kind"], kinds]) if old else kinds,
            "inputs": self.table.column("inputs"),
            "outputs": self.table.column("outputs"),
            "first_stage": np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            "stages": np.concatenate([old["stages"], rows]) if old else rows,
        }

    def signature_of(self, stage: int) -> int:
        """The signature that a row of `stages` belongs to."""
        return int(self.columns["first_stage"].searchsorted(stage, side="right")) - 1

    def _stated(self, signature: Signature, cost: Cost) -> Cost:
        if cost.category not in STATED or cost.products or cost.extras or not cost.flops or self._restate is None:
            return cost
        try:
            again = self._restate(signature)
        except (IndexError, KeyError, TypeError, ValueError):  # another program's file may order tensors differently
            return cost
        same = (again.category, again.flops, again.bytes) == (cost.category, cost.flops, cost.bytes)
        return again if same else cost


def _row_kind(signature: Signature, cost: Cost) -> int:
    if signature.name in _ORDER_ROWS:
        return ROW_KINDS.index(_ORDER_ROWS[signature.name])
    return ROW_KINDS.index("view" if cost.category in FREE_CATEGORIES else "operator")


def _packed(stage: Stage) -> list[int]:
    kind = WorkTable.KINDS.index(type(stage))
    values = {name: int(getattr(stage, name, 0)) for name in WorkTable.STAGE_COLUMNS[1:]}
    if isinstance(stage, Blocks):
        values |= {name: int(getattr(stage.product, name)) for name in WorkTable.STAGE_COLUMNS[1:9]}
    if isinstance(stage, Transfer):
        values["read_bytes"] = stage.link_bytes
    return [kind, *values.values()]
