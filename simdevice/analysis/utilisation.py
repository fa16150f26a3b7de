"""What the parts of an accelerator did with the time: utilisation, stalls, and the hot-spot with its reason.

Needs a Run with tiles; everything here is empty for a device without them.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, cast

import numpy as np

from simdevice.records import Program, Run
from simdevice.records.program import UNITS
from simdevice.units import PS_PER_S, format_bytes

if TYPE_CHECKING:
    from simdevice.hardware import AcceleratorSpec

__all__ = ["Component", "HotSpot", "Stall", "components", "hot_spot", "stalls"]


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
class HotSpot:
    """What limits the run, how much of the time, and why."""

    name: str
    share: float
    reason: str


def components(run: Run) -> list[Component]:
    """The units, both transfer engines and the memory channels."""
    if run.program is None or run.timeline is None:
        return []
    program, spec = run.program, _spec(run)
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


def _spec(run: Run) -> AcceleratorSpec:
    """The machine of a run with tiles: only accelerators have them."""
    return cast("AcceleratorSpec", run.spec)


def _channel_rate(spec: AcceleratorSpec) -> Fraction:
    """Bytes per second of one transfer."""
    return min(Fraction(spec.dram_bandwidth_bytes_per_s) / spec.dram_channels, Fraction(spec.noc_bandwidth_bytes_per_s))


def stalls(run: Run) -> list[Stall]:
    """The exact split of the time, in the order of analysis.stalls.STALLS."""
    total = max(run.makespan_ps, 1)
    return [Stall(name.replace("_", " "), ps / PS_PER_S, ps / total) for name, ps in run.stalls.items()]


def hot_spot(run: Run) -> HotSpot | None:
    """The largest share of the split, as the part of the machine to look at."""
    if run.program is None or run.timeline is None or not run.makespan_ps:
        return None
    program, spec = run.program, _spec(run)
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
