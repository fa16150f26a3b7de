"""Which storages are alive when: memory over a trace, its peak, and what it consists of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simdevice.records.op import CATEGORIES
from simdevice.records.table import check_sum
from simdevice.records.trace import Trace

__all__ = ["Liveness", "LiveStorage", "liveness"]

Int64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class LiveStorage:
    """A storage, its size, and the operators (rows) it lives through. `first` is -1 for one that existed before."""

    id: int
    nbytes: int
    first: int
    last: int
    is_weight: bool


@dataclass(frozen=True)
class Liveness:
    """Columns per storage (`ids` ascending) and `bytes_at`: bytes alive while each operator runs.

    A storage lives from the operator that makes it to the last that touches it. One that the trace
    finds (first touched as an input) is alive from the start, and a weight to the end as well. What
    the program keeps without touching it again can't be seen, so a real allocator never needs less.
    """

    ids: Int64
    nbytes: Int64
    first: Int64
    last: Int64
    is_weight: NDArray[np.bool_]
    bytes_at: Int64

    @property
    def peak_bytes(self) -> int:
        """Most bytes alive at once."""
        return int(self.bytes_at.max(initial=0))

    @property
    def peak_row(self) -> int:
        """The first operator that runs at the peak; -1 for an empty trace."""
        return int(self.bytes_at.argmax()) if len(self.bytes_at) else -1

    @property
    def weight_bytes(self) -> int:
        """Bytes of all weights touched."""
        return int(self.nbytes[self.is_weight].sum())

    def alive(self, row: int) -> list[LiveStorage]:
        """What is alive while an operator runs, largest first."""
        chosen = np.flatnonzero((self.first <= row) & (row <= self.last))
        order = chosen[np.lexsort((self.ids[chosen], -self.nbytes[chosen]))]
        return [
            LiveStorage(
                int(self.ids[i]), int(self.nbytes[i]), int(self.first[i]), int(self.last[i]), bool(self.is_weight[i])
            )
            for i in order
        ]


def liveness(trace: Trace) -> Liveness:
    """Compute the lifetimes of a trace's storages. Untracked tensors (id -1) don't count.

    A storage is as large as the first tensor seen on it, or any fresh result on it: a view may be
    smaller (a slice) or larger (an expansion) than what it shows.

    Raises:
        SizeError: more bytes than an int64 holds.
    """
    table, rows = trace.table, trace.rows
    arity = table.column("arity")[rows.signature]
    row = np.repeat(np.arange(len(rows)), arity)
    starts = np.zeros(len(table) + 1, np.int64)
    np.cumsum(table.column("arity"), out=starts[1:])
    place = np.arange(len(row)) - np.repeat(rows.offsets(table)[:-1], arity)  # of a tensor within its call
    spec = starts[:-1][rows.signature[row]] + place
    tracked = rows.tensors >= 0
    row, place, spec, tensor = row[tracked], place[tracked], spec[tracked], rows.tensors[tracked]

    specs = [t for signature in table.signatures for t in (*signature.inputs, *signature.outputs)]
    nbytes = np.fromiter((t.nbytes for t in specs), np.int64, len(specs))[spec]
    weight = np.fromiter((t.is_weight for t in specs), np.bool_, len(specs))[spec]
    is_output = place >= table.column("inputs")[rows.signature[row]]
    is_view = trace.per_op("category")[row] == CATEGORIES.index("view")

    ids, seen_first, which = np.unique(tensor, return_index=True, return_inverse=True)
    size = nbytes[seen_first]
    fresh = is_output & ~is_view
    np.maximum.at(size, which[fresh], nbytes[fresh])
    first = np.where(is_output[seen_first], row[seen_first], -1)
    last = np.zeros(len(ids), np.int64)
    np.maximum.at(last, which, row)
    is_weight = np.zeros(len(ids), np.bool_)
    np.logical_or.at(is_weight, which, weight)
    last[is_weight] = len(rows) - 1

    check_sum(size, np.ones_like(size), "bytes alive")
    change = np.zeros(len(rows) + 1, np.int64)
    np.add.at(change, np.maximum(first, 0), size)
    np.add.at(change, last + 1, -size)
    return Liveness(ids, size, first, last, is_weight, np.cumsum(change[:-1]))
