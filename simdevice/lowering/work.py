"""What an operator gives a machine to do, before any machine is known: products, streams and link transfers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from simdevice.lowering.contractions import CONTRACTIONS, Product, products
from simdevice.records import FREE_CATEGORIES, Cost, OpTable, Signature

__all__ = ["ROW_KINDS", "Product", "Stage", "Stream", "Transfer", "WorkTable", "work_of"]

ROW_KINDS = ("operator", "view", "synchronize", "record_event", "wait_event", "synchronize_event")
"""What a row of a trace is to the lowering. Only operators become tiles."""

_ORDER_ROWS = {f"simacc.{kind}": kind for kind in ROW_KINDS[2:]}

BUTTERFLY_OPS = 3
"""A butterfly: a modular multiplication, an addition and a subtraction."""

_TRANSFORMS = frozenset({"fhe.intt", "fhe.ntt"})
"""What can run in transit, on the way in; a butterfly is one lane operation where it can't."""


@dataclass(frozen=True, slots=True)
class Stream:
    """Bytes in, work on the vector lanes, bytes out, cut into equal slices.

    `work` counts lane operations: max(FLOPs, output elements), or butterflies. `load_ops` and
    `store_ops` can be done on the data in flight instead, by a machine that can.
    """

    read_bytes: int
    written_bytes: int
    work: int
    load_ops: int = 0
    store_ops: int = 0
    chained: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class Transfer:
    """Bytes over the link between host and device."""

    link_bytes: int
    chained: ClassVar[bool] = False


Stage = Product | Stream | Transfer


def work_of(signature: Signature, cost: Cost) -> tuple[Stage, ...]:
    """The stages of one operator; none where it has nothing to do.

    1. Views and order rows: none. Transfers: the link.
    2. Matrix products, convolutions, attention: products (see contractions.py).
    3. Number-theoretic transforms: butterflies, 3 operations each.
    4. All else, operators without a rule included: a stream of the cost's bytes, whose lane
       operations are max(FLOPs, output elements).
    """
    if cost.category in FREE_CATEGORIES:
        return ()
    if cost.category == "transfer":
        return (Transfer(cost.bytes),) if cost.bytes else ()
    if cost.category in CONTRACTIONS:
        found = products(signature, cost)
        if found:
            return found
    flops = cost.flops or 0
    if signature.name in _TRANSFORMS:
        return (Stream(cost.bytes_read, cost.bytes_written, flops // BUTTERFLY_OPS, load_ops=flops),)
    work = max(flops, sum(t.numel for t in signature.outputs))
    if not (cost.bytes or flops):
        return ()
    return (Stream(cost.bytes_read, cost.bytes_written, work),)


class WorkTable:
    """The stages of every signature of a (growing) table, as objects and as columns.

    Columns of int64: `row_kind` (index into ROW_KINDS), `inputs`, `outputs` per signature; `first_stage`
    (one entry more); `stages`, one row of STAGE_COLUMNS per stage.
    """

    STAGE_COLUMNS = (
        *("kind", "batch", "m", "k", "n", "a_bits", "b_bits", "out_bits", "chained"),
        *("read_bytes", "written_bytes", "work", "load_ops", "store_ops"),
    )
    KINDS = (Product, Stream, Transfer)

    def __init__(self, table: OpTable) -> None:
        self.table = table
        self.stages: list[tuple[Stage, ...]] = []
        self.columns: dict[str, NDArray[np.int64]] = {}
        self.extend()

    @classmethod
    def of(cls, table: OpTable) -> WorkTable:
        """The table's own, made once and kept with it."""
        known: WorkTable | None = table.derived.get(cls)
        if known is None:
            known = table.derived[cls] = cls(table)
        known.extend()
        return known

    def extend(self) -> None:
        """Take in signatures that the table has gained."""
        known = len(self.stages)
        if known == len(self.table) and self.columns:
            return
        fresh = list(zip(self.table.signatures[known:], self.table.costs[known:], strict=True))
        stages = [work_of(s, c) for s, c in fresh]
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


def _row_kind(signature: Signature, cost: Cost) -> int:
    if signature.name in _ORDER_ROWS:
        return ROW_KINDS.index(_ORDER_ROWS[signature.name])
    return ROW_KINDS.index("view" if cost.category in FREE_CATEGORIES else "operator")


def _packed(stage: Stage) -> list[int]:
    kind = WorkTable.KINDS.index(type(stage))
    row = {name: int(getattr(stage, name, 0)) for name in WorkTable.STAGE_COLUMNS[1:]}
    if isinstance(stage, Transfer):
        row["read_bytes"] = stage.link_bytes
    return [kind, *row.values()]
