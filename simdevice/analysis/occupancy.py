"""How full the buffer and the FIFO of ready tiles are over time, and when each engine is busy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simdevice.records import Program, Run, Timeline
from simdevice.records.program import UNITS

__all__ = [
    "Lane",
    "Level",
    "Series",
    "buffer_peak",
    "buffer_series",
    "busy_fraction",
    "columns",
    "fifo_series",
    "held_bytes",
    "lanes",
    "levels",
]

Int64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Series:
    """A level over time: `values[i]` holds from `times_ps[i]` on."""

    times_ps: Int64
    values: Int64

    def mean(self, until_ps: int) -> float:
        """The time average from zero to `until_ps`."""
        if not until_ps or not len(self.values):
            return 0.0
        lasted = np.diff(self.times_ps, append=until_ps) / until_ps
        return float((lasted * self.values).sum())


@dataclass(frozen=True, slots=True)
class Level:
    """Something that fills and empties: time-averaged mean, peak, and what it could hold (None: no limit)."""

    name: str
    mean: float
    peak: int
    capacity: int | None
    unit: str


@dataclass(frozen=True, slots=True, eq=False)
class Lane:
    """One engine's busy intervals in picoseconds, in order, and the tile of each."""

    name: str
    start_ps: Int64
    end_ps: Int64
    tile: Int64


def buffer_series(run: Run) -> Series:
    """Bytes of the buffer in use."""
    program, timeline = run.program, run.timeline
    if program is None or timeline is None:
        return Series(np.zeros(0, np.int64), np.zeros(0, np.int64))
    operands, results = program.column("operand_bytes"), program.column("result_bytes")
    times = [timeline.allocated, timeline.compute_end, timeline.store_end]
    return _series(times, [operands + results, -operands, -results], program)


def fifo_series(run: Run) -> Series:
    """Tiles that are loaded and wait for their unit."""
    program, timeline = run.program, run.timeline
    if program is None or timeline is None:
        return Series(np.zeros(0, np.int64), np.zeros(0, np.int64))
    one = np.ones(len(timeline), np.int64)
    return _series([timeline.load_end, timeline.compute_start], [one, -one], program)


def _series(times: list[Int64], changes: list[Int64], program: Program) -> Series:
    at, change = np.concatenate(times), np.concatenate(changes)
    at, index = np.unique(at, return_inverse=True)
    total = np.zeros(len(at), np.int64)
    np.add.at(total, index, change)
    return Series(program.to_ps(at), np.cumsum(total))


def buffer_peak(run: Run) -> int:
    """The most bytes of the buffer in use at once: right after some allocation."""
    if run.program is None or run.timeline is None:
        return 0
    return int(held_bytes(run.program, run.timeline).max(initial=0))


def held_bytes(program: Program, timeline: Timeline) -> Int64:
    """Per tile, the bytes of the buffer in use right after its allocation."""
    operands, results = program.column("operand_bytes"), program.column("result_bytes")
    stores = program.column("store_ticks") > 0
    held = np.cumsum(operands + results)
    for times, freed in (
        (timeline.compute_end, np.where(stores, operands, operands + results)),
        (timeline.store_end[stores], results[stores]),
    ):
        past = np.concatenate([[0], np.cumsum(freed)])
        held = held - past[np.searchsorted(times, timeline.allocated, side="right")]
    return held


def levels(run: Run) -> list[Level]:
    """Buffer occupancy and the depth of the ready FIFO."""
    if run.program is None or run.timeline is None:
        return []
    buffer, fifo = buffer_series(run), fifo_series(run)
    return [
        Level("buffer", buffer.mean(run.makespan_ps), buffer_peak(run), run.program.buffer_bytes, "B"),
        Level("ready FIFO", fifo.mean(run.makespan_ps), int(fifo.values.max(initial=0)), None, "tiles"),
    ]


def columns(series: Series, edges_ps: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The highest value and the time average of a level in each interval between edges."""
    times, values = series.times_ps.astype(float), series.values.astype(float)
    length = np.concatenate([[0.0], np.cumsum(values[:-1] * np.diff(times))])
    last = np.searchsorted(times, edges_ps, side="right") - 1
    held = np.where(last < 0, 0.0, values[last])  # at each edge; before the first step there is nothing
    total = np.where(last < 0, 0.0, length[last] + held * (edges_ps - times[last]))
    most = held[:-1].copy()
    np.maximum.at(
        most, np.searchsorted(edges_ps, times[times < edges_ps[-1]], side="right") - 1, values[times < edges_ps[-1]]
    )
    return most, np.diff(total) / np.diff(edges_ps)


def lanes(run: Run) -> list[Lane]:
    """The load engine, each unit that computed anything, the store engine; empty without tiles."""
    program, timeline = run.program, run.timeline
    if program is None or timeline is None:
        return []
    load, store, unit = (program.column(n) for n in ("load_ticks", "store_ticks", "unit"))
    spans = [("load", timeline.load_end - load, timeline.load_end, load > 0)]
    spans += [(u, timeline.compute_start, timeline.compute_end, unit == i) for i, u in enumerate(UNITS)]
    spans += [("store", timeline.store_start, timeline.store_end, store > 0)]
    busy = []
    for name, start, end, chosen in spans:
        tile = np.flatnonzero(chosen & (end > start))
        if len(tile):
            busy.append(Lane(name, program.to_ps(start[tile]), program.to_ps(end[tile]), tile))
    return busy


def busy_fraction(lane: Lane, edges_ps: NDArray[np.float64]) -> NDArray[np.float64]:
    """How much of each interval between edges the lane was busy."""
    length = np.concatenate([[0], np.cumsum(lane.end_ps - lane.start_ps)])

    def busy_until(time: NDArray[np.float64]) -> NDArray[np.float64]:
        last = np.searchsorted(lane.start_ps, time, side="right")
        begun = np.maximum(last - 1, 0)
        beyond = np.clip(time - lane.end_ps[begun], None, 0)
        return np.where(last > 0, length[last] + beyond, 0.0)

    share: NDArray[np.float64] = np.diff(busy_until(edges_ps)) / np.diff(edges_ps)
    return share
