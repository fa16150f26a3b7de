"""A program of tiles for one machine, and the timeline an engine makes of it: columns, no timing rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simdevice.units import PS_PER_S, ceil_div

__all__ = ["TIMELINE_FIELDS", "UNITS", "Program", "Tiles", "Timeline"]

Int64 = NDArray[np.int64]

UNITS = ("array", "vector", "link")
"""What computes a tile: the matrix array, the vector lanes, or the host link (which carries its data)."""

PER_OPERATOR = ("wait_for", "host_wait", "launch_ticks", "trace_row", "not_before")
"""Program columns of one plain number per operator."""

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
class Tiles:
    """Columns of tiles in lists; list i is tiles `offsets[i]:offsets[i + 1]`. Durations are in ticks.

    `load_ticks`, `compute_ticks`, `store_ticks` (0: nothing to transfer); `operand_bytes` are held
    from allocation until the compute ends, `result_bytes` until the store ends (a tile that stores
    nothing, such as a partial sum, releases them when its compute ends); `unit` indexes UNITS;
    `work` counts multiply-adds on the array, lane operations on the vector unit, bytes on the link.
    """

    offsets: Int64
    load_ticks: Int64
    compute_ticks: Int64
    store_ticks: Int64
    operand_bytes: Int64
    result_bytes: Int64
    work: Int64
    unit: NDArray[np.uint8]

    @classmethod
    def concatenate(cls, parts: Sequence[Tiles]) -> Tiles:
        """The lists of all parts, in order."""
        if len(parts) == 1:
            return parts[0]
        columns = {f.name: np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(cls)[1:]}
        counts = np.concatenate([np.diff(p.offsets) for p in parts])
        return cls(np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), **columns)


@dataclass(frozen=True)
class Program:
    """Operators in program order, each a list of tiles. Operators with equal tiles share one list.

    Per operator: `tile_list` (index into the lists of `tiles`); `deps[dep_offsets[i]:dep_offsets[i + 1]]`,
    the operators that must be complete before its first tile loads (already without views and
    parameters); `wait_for`, a number p: every operator before p must be complete too (0: none; the
    device waits for an event); `host_wait` the same where the host waits before it issues this
    operator; `launch_ticks`, how long the host takes to issue it; `trace_row`, where it came from;
    `not_before`, a tick before which it does not start because of another device (None: zero for all).

    One tick is 1/`ticks_per_s` seconds: a picosecond, or a clock cycle where `quantised`.
    In a piece of a longer program, `first_operator` operators come before it and deps and waits
    count from the very first.
    """

    tiles: Tiles
    tile_list: Int64
    dep_offsets: Int64
    deps: Int64
    wait_for: Int64
    host_wait: Int64
    launch_ticks: Int64
    trace_row: Int64
    buffer_bytes: int
    dram_channels: int
    ticks_per_s: Fraction = Fraction(PS_PER_S)
    quantised: bool = False
    first_operator: int = 0
    not_before: Int64 = None  # type: ignore[assignment]  # zeros are put there when the program is made

    def __post_init__(self) -> None:
        if self.not_before is None:
            object.__setattr__(self, "not_before", np.zeros(self.operators, np.int64))

    @property
    def operators(self) -> int:
        return len(self.tile_list)

    def __len__(self) -> int:
        """Tiles, every repetition counted."""
        return int(self.first_tile[-1])

    @cached_property
    def first_tile(self) -> Int64:
        """Operator i owns tiles `first_tile[i]:first_tile[i + 1]`."""
        out = np.zeros(self.operators + 1, np.int64)
        np.cumsum(np.diff(self.tiles.offsets)[self.tile_list], out=out[1:])
        return out

    @cached_property
    def operator(self) -> Int64:
        """The operator of each tile."""
        return np.repeat(np.arange(self.operators), np.diff(self.first_tile))

    @cached_property
    def tile_index(self) -> Int64:
        """Where each tile, repetitions written out, is in the columns of `tiles`."""
        starts = self.tiles.offsets[self.tile_list] - self.first_tile[:-1]
        return np.arange(len(self)) + starts[self.operator]

    def column(self, name: str) -> NDArray[Any]:
        """One value per tile: a column of `tiles`, repetitions written out."""
        column: NDArray[Any] = getattr(self.tiles, name)
        return column[self.tile_index]

    @cached_property
    def repetitions(self) -> Int64:
        """How often each tile of `tiles` occurs, so that totals need no column written out."""
        times = np.bincount(self.tile_list, minlength=len(self.tiles.offsets) - 1)
        return np.repeat(times, np.diff(self.tiles.offsets))

    def to_ps(self, ticks: Int64) -> Int64:
        """Ticks as picoseconds, rounded up."""
        scale = PS_PER_S / self.ticks_per_s
        if scale == 1:
            return ticks
        if scale.denominator == 1:
            return ticks * int(scale)
        exact = [ceil_div(int(t) * scale.numerator, scale.denominator) for t in ticks.ravel()]
        return np.array(exact, np.int64).reshape(ticks.shape)

    @classmethod
    def concatenate(cls, pieces: Sequence[Program]) -> Program:
        """The whole program of which these are the pieces, in order."""
        if len(pieces) == 1:
            return pieces[0]
        lists = np.cumsum([0, *(len(p.tiles.offsets) - 1 for p in pieces)])
        shifts = np.cumsum([0, *(len(p.deps) for p in pieces)])
        columns: dict[str, Any] = {n: np.concatenate([getattr(p, n) for p in pieces]) for n in ("deps", *PER_OPERATOR)}
        return replace(
            pieces[0],
            tiles=Tiles.concatenate([p.tiles for p in pieces]),
            tile_list=np.concatenate([p.tile_list + n for p, n in zip(pieces, lists, strict=False)]),
            dep_offsets=np.concatenate(
                [*(p.dep_offsets[:-1] + n for p, n in zip(pieces, shifts, strict=False)), shifts[-1:]]
            ),
            **columns,
        )

    def __eq__(self, other: object) -> bool:
        """Equal tile for tile and dependency for dependency, however the lists are shared."""
        if not isinstance(other, Program):
            return NotImplemented
        per_op = ("first_tile", "dep_offsets", "deps", *PER_OPERATOR)
        machine = ("buffer_bytes", "dram_channels", "ticks_per_s", "quantised", "first_operator")
        return (
            all(getattr(self, n) == getattr(other, n) for n in machine)
            and all(np.array_equal(getattr(self, n), getattr(other, n)) for n in per_op)
            and all(np.array_equal(self.column(f.name), other.column(f.name)) for f in fields(Tiles)[1:])
        )

    __hash__ = None  # type: ignore[assignment]  # holds arrays


@dataclass(frozen=True)
class Timeline:
    """Eight times per tile, in the program's ticks, and when the last of them is over.

    A load begins at `allocated`, or later where it waits for the only memory channel. A tile that
    stores nothing has store_start = store_end = compute_end.
    """

    issue: Int64
    dependencies_met: Int64
    allocated: Int64
    load_end: Int64
    compute_start: Int64
    compute_end: Int64
    store_start: Int64
    store_end: Int64

    def __len__(self) -> int:
        return len(self.issue)

    @cached_property
    def makespan(self) -> int:
        """The last store end (or compute end) of all."""
        return int(self.store_end.max(initial=0))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Timeline):
            return NotImplemented
        return all(np.array_equal(getattr(self, f), getattr(other, f)) for f in TIMELINE_FIELDS)

    __hash__ = None  # type: ignore[assignment]  # holds arrays
