"""A program of tiles for one machine, and the timeline an engine makes of it: columns, no behaviour."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["TIMELINE_FIELDS", "Program", "Timeline"]

Int64 = NDArray[np.int64]

TIMELINE_FIELDS = (
    "issue",
    "dependencies_met",
    "allocated",
    "load_end",
    "compute_start",
    "compute_end",
    "store_start",
    "store_end",
)


@dataclass(frozen=True)
class Program:
    """Tiles in program order, grouped by operator. All durations are in ticks (see `tick_ps`).

    Per tile: `op` (index into the operators), `load_ticks`, `compute_ticks`, `store_ticks` (0: no
    transfer), `operand_bytes` (freed when its compute ends), `result_bytes` (freed when its store
    ends; a tile that stores nothing frees it when its compute ends), `unit` (0 array, 1 vector).

    Per operator: `first_tile` (one entry more than operators, so tiles of operator i are
    first_tile[i]:first_tile[i+1]); `dep_offsets`/`deps`: the operators whose last store must have
    ended before this operator's first load (already without views and parameters).
    """

    op: Int64
    load_ticks: Int64
    compute_ticks: Int64
    store_ticks: Int64
    operand_bytes: Int64
    result_bytes: Int64
    unit: NDArray[np.uint8]
    first_tile: Int64
    dep_offsets: Int64
    deps: Int64
    buffer_bytes: int
    dram_channels: int
    tick_ps: int = 1
    trace_row: Int64 | None = None

    def __len__(self) -> int:
        return len(self.op)


@dataclass(frozen=True)
class Timeline:
    """Eight times per tile, in the program's ticks, and the makespan."""

    issue: Int64
    dependencies_met: Int64
    allocated: Int64
    load_end: Int64
    compute_start: Int64
    compute_end: Int64
    store_start: Int64
    store_end: Int64
    makespan: int

    def __len__(self) -> int:
        return len(self.issue)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Timeline):
            return NotImplemented
        same = (np.array_equal(getattr(self, f), getattr(other, f)) for f in TIMELINE_FIELDS)
        return self.makespan == other.makespan and all(same)

    __hash__ = None  # type: ignore[assignment]  # holds arrays
