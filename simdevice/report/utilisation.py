"""What the parts of an accelerator did with the time: utilisation, stalls, levels, and the hot-spot with its reason.

Needs a Run with tiles; everything here is empty for a device without them.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from simdevice.hardware import AcceleratorSpec
from simdevice.records import Program, Run, Timeline
from simdevice.records.program import UNITS
from simdevice.units import PS_PER_S, format_bytes

__all__ = [
    "Bin",
    "Component",
    "HotSpot",
    "Level",
    "Series",
    "Stall",
    "buffer_peak",
    "buffer_series",
    "components",
    "fifo_series",
    "hot_spot",
    "latency_histogram",
    "levels",
    "stalls",
]

Int64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Component:
    """One part of the machine. `share` is its busy time's part of the whole; `efficiency` what it did
    while busy, against its full rate: processing elements fed, lanes used, bandwidth reached."""

    name: str
    time_s: float
    share: float
    work: int
    unit: str
    efficiency_share: float


@dataclass(frozen=True, slots=True)
class Stall:
    """One share of the exact split of the time."""

    name: str
    time_s: float
    share: float


@dataclass(frozen=True, slots=True)
class Level:
    """Something that fills and empties: time-averaged mean, peak, and what it could hold (None: no limit)."""

    name: str
    mean: float
    peak: int
    capacity: int | None
    unit: str


@dataclass(frozen=True, slots=True)
class HotSpot:
    """What limits the run, how much of the time, and why."""

    name: str
    share: float
    reason: str


@dataclass(frozen=True, slots=True)
class Bin:
    """Tiles whose latency, from buffer space to the end of the store, is from `low_s` up to `high_s`."""

    low_s: float
    high_s: float
    tiles: int


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


def _tiles(run: Run) -> tuple[Program, Timeline, AcceleratorSpec] | None:
    if run.program is None or run.timeline is None or not isinstance(run.spec, AcceleratorSpec):
        return None
    return run.program, run.timeline, run.spec


def components(run: Run) -> list[Component]:
    """The units, both transfer engines and the memory channels."""
    found = _tiles(run)
    if found is None:
        return []
    program, _, spec = found
    tiles, times = program.tiles, program.repetitions
    per_s, whole_s = float(program.ticks_per_s), max(run.makespan_ps, 1) / PS_PER_S
    clock, rate = float(spec.clock_hz), float(_channel_rate(spec))

    def row(name: str, ticks: int, amount: int, unit: str, full_per_s: float, parallel: int = 1) -> Component:
        busy = ticks / per_s
        efficiency = amount / (busy * full_per_s) if busy and full_per_s else 0.0
        return Component(name, busy, busy / whole_s / parallel, amount, unit, efficiency)

    def of_unit(name: str) -> tuple[int, int]:
        chosen = np.where(tiles.unit == UNITS.index(name), times, 0)
        return int(chosen @ tiles.compute_ticks), int(chosen @ tiles.work)

    load, store = int(times @ tiles.load_ticks), int(times @ tiles.store_ticks)
    loaded = int(times @ tiles.operand_bytes)
    stored = int(np.where(tiles.store_ticks > 0, times, 0) @ tiles.result_bytes)
    rows = [
        row("matrix array", *of_unit("array"), "multiply-adds", clock * spec.array_rows * spec.array_cols),
        row("vector unit", *of_unit("vector"), "operations", clock * spec.vector_lanes),
        row("load engine", load, loaded, "B", rate),
        row("store engine", store, stored, "B", rate),
        row("memory channels", load + store, loaded + stored, "B", rate, spec.dram_channels),
    ]
    ticks, carried = of_unit("link")
    if ticks:
        rows.append(row("host link", ticks, carried, "B", 0.0))
    return rows


def _channel_rate(spec: AcceleratorSpec) -> Fraction:
    """Bytes per second of one transfer."""
    return min(Fraction(spec.dram_bandwidth_bytes_per_s) / spec.dram_channels, Fraction(spec.noc_bandwidth_bytes_per_s))


def stalls(run: Run) -> list[Stall]:
    """The exact split of the time, in the order of analysis.stalls.STALLS."""
    total = max(run.makespan_ps, 1)
    return [Stall(name.replace("_", " "), ps / PS_PER_S, ps / total) for name, ps in run.stalls.items()]


def _series(times: list[Int64], changes: list[Int64], program: Program) -> Series:
    at, change = np.concatenate(times), np.concatenate(changes)
    at, index = np.unique(at, return_inverse=True)
    total = np.zeros(len(at), np.int64)
    np.add.at(total, index, change)
    return Series(program.to_ps(at), np.cumsum(total))


def buffer_series(run: Run) -> Series:
    """Bytes of the buffer in use."""
    found = _tiles(run)
    if found is None:
        return Series(np.zeros(0, np.int64), np.zeros(0, np.int64))
    program, timeline, _ = found
    operands, results = program.column("operand_bytes"), program.column("result_bytes")
    times = [timeline.allocated, timeline.compute_end, timeline.store_end]
    return _series(times, [operands + results, -operands, -results], program)


def fifo_series(run: Run) -> Series:
    """Tiles that are loaded and wait for their unit."""
    found = _tiles(run)
    if found is None:
        return Series(np.zeros(0, np.int64), np.zeros(0, np.int64))
    program, timeline, _ = found
    one = np.ones(len(timeline), np.int64)
    return _series([timeline.load_end, timeline.compute_start], [one, -one], program)


def buffer_peak(run: Run) -> int:
    """The most bytes of the buffer in use at once: right after some allocation."""
    found = _tiles(run)
    if found is None or not len(found[1]):
        return 0
    program, timeline, _ = found
    operands, results = program.column("operand_bytes"), program.column("result_bytes")
    stores = program.column("store_ticks") > 0
    held = np.cumsum(operands + results)
    for times, freed in (
        (timeline.compute_end, np.where(stores, operands, operands + results)),
        (timeline.store_end[stores], results[stores]),
    ):
        past = np.concatenate([[0], np.cumsum(freed)])
        held = held - past[np.searchsorted(times, timeline.allocated, side="right")]
    return int(held.max())


def levels(run: Run) -> list[Level]:
    """Buffer occupancy and the depth of the ready FIFO."""
    found = _tiles(run)
    if found is None:
        return []
    buffer, fifo = buffer_series(run), fifo_series(run)
    return [
        Level("buffer", buffer.mean(run.makespan_ps), buffer_peak(run), found[0].buffer_bytes, "B"),
        Level("ready FIFO", fifo.mean(run.makespan_ps), int(fifo.values.max(initial=0)), None, "tiles"),
    ]


def latency_histogram(run: Run, bins: int = 20) -> list[Bin]:
    """Tiles by latency, in bins of equal width."""
    found = _tiles(run)
    if found is None or not len(found[1]):
        return []
    program, timeline, _ = found
    latency = program.to_ps(timeline.store_end - timeline.allocated)
    counts, edges = np.histogram(latency, bins=bins)
    edges = edges / PS_PER_S
    rows = zip(edges[:-1].tolist(), edges[1:].tolist(), counts.tolist(), strict=True)
    return [Bin(low, high, tiles) for low, high, tiles in rows]


def hot_spot(run: Run) -> HotSpot | None:
    """The largest share of the split, as the part of the machine to look at."""
    found = _tiles(run)
    if found is None or not run.makespan_ps:
        return None
    program, _, spec = found
    name = max(run.stalls, key=lambda n: run.stalls[n])
    share = run.stalls[name] / run.makespan_ps
    if name == "compute":
        by_unit = {c.name: c for c in components(run)[:2]}
        unit = max(by_unit.values(), key=lambda c: c.time_s)
        filled = "of its multiply-adds per cycle" if unit.name == "matrix array" else "of its lanes"
        return HotSpot(
            unit.name, share, f"it computes {unit.share:.1%} of the time and uses {unit.efficiency_share:.1%} {filled}"
        )
    if name == "link":
        return HotSpot("host link", share, "copies between host and device run alone in the queue")
    if name == "buffer_full":
        reason = f"loads wait until tiles leave the {format_bytes(program.buffer_bytes)} buffer"
        return HotSpot("buffer", share, reason)
    if name == "dependency":
        reason = "operators wait until their inputs are stored (or for the host); nothing else can be loaded meanwhile"
        return HotSpot("dependencies", share, reason)
    return HotSpot(*_transfers(run, program, spec, share, "loads" if name == "load_bandwidth" else "the last store"))


def _transfers(run: Run, program: Program, spec: AcceleratorSpec, share: float, what: str) -> tuple[str, float, str]:
    """Whether transfers are long for their bytes or for their latency, and which side sets the rate."""
    rate = _channel_rate(spec)
    side = "network on chip" if rate == spec.noc_bandwidth_bytes_per_s else "off-chip memory"
    loads = int(np.where(program.tiles.load_ticks > 0, program.repetitions, 0).sum())
    busy = int(program.repetitions @ program.tiles.load_ticks) / float(program.ticks_per_s)
    waited = loads * float(Fraction(spec.dram_latency_s) + spec.noc_latency_s) / busy if busy else 0.0
    reason = (
        f"units wait for {what} {share:.1%} of the time; a transfer gets {format_bytes(float(rate))}/s "
        f"and {waited:.1%} of a load is latency"
    )
    return side, share, reason
