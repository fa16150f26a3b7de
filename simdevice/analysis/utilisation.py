"""What the parts of an accelerator did with the time: utilisation, stalls, and the hot-spot with its reason.

Needs a Run with tiles; everything here is empty for a device without them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, cast

from simdevice.analysis.outline import amounts
from simdevice.records import Amounts, Program, Run
from simdevice.units import PS_PER_S, format_bytes

if TYPE_CHECKING:
    from simdevice.hardware import AcceleratorSpec

__all__ = ["Component", "HotSpot", "Stall", "components", "hot_spot", "limit", "parts", "stalls"]


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
    return parts(amounts(run.program), run.program.ticks_per_s, run.makespan_ps, _spec(run))


def parts(needed: Amounts, ticks_per_s: Fraction, makespan_ps: int, spec: AcceleratorSpec) -> list[Component]:
    """What the parts of a machine did in `makespan_ps`, in the order of `components`."""
    per_s, whole_s = float(ticks_per_s), max(makespan_ps, 1) / PS_PER_S
    clock, rate = float(spec.clock_hz), float(_channel_rate(spec))

    def row(name: str, ticks: int, amount: int, unit: str, full_per_s: float, parallel: int = 1) -> Component:
        busy = ticks / per_s
        efficiency = amount / (busy * full_per_s) if busy and full_per_s else 0.0
        return Component(name, busy, busy / whole_s / parallel, amount, unit, efficiency)

    (array, vector, link), (multiplied, operated, carried) = needed.unit_ticks, needed.unit_work
    load, store, loaded, stored = needed.load_ticks, needed.store_ticks, needed.loaded_bytes, needed.stored_bytes
    rows = [
        row("matrix array", array, multiplied, "multiply-adds", clock * spec.array_rows * spec.array_cols),
        row("vector unit", vector, operated, "operations", clock * spec.vector_lanes),
        row("load engine", load, loaded, "B", rate),
        row("store engine", store, stored, "B", rate),
        row("memory channels", load + store, loaded + stored, "B", rate, spec.dram_channels),
    ]
    if link:
        rows.append(row("host link", link, carried, "B", 0.0))
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
    largest = max(run.stalls, key=lambda n: run.stalls[n])
    share, found = run.stalls[largest] / run.makespan_ps, components(run)
    name = limit(run.stalls, found, _spec(run))
    if largest == "compute":
        unit = next(c for c in found if c.name == name)
        filled = "of its multiply-adds per cycle" if name == "matrix array" else "of its lanes"
        reason = f"it computes {unit.share:.1%} of the time and uses {unit.efficiency_share:.1%} {filled}"
    elif largest == "link":
        reason = "copies between host and device run alone in the queue"
    elif largest == "buffer_full":
        reason = f"loads wait until tiles leave the {format_bytes(run.program.buffer_bytes)} buffer"
    elif largest == "dependency":
        reason = "operators wait until their inputs are stored (or for the host); nothing else can be loaded meanwhile"
    else:
        what = "loads" if largest == "load_bandwidth" else "the last store"
        reason = _transfers(run.program, _spec(run), share, what)
    return HotSpot(name, share, reason)


def limit(stalls_ps: Mapping[str, int], found: Sequence[Component], spec: AcceleratorSpec) -> str:
    """The part of the machine behind the largest share; `found` as `components` gives them."""
    largest = max(stalls_ps, key=lambda n: stalls_ps[n])
    if largest == "compute":
        return max(found[:2], key=lambda c: c.time_s).name
    if largest in _PARTS:
        return _PARTS[largest]
    noc = Fraction(spec.noc_bandwidth_bytes_per_s)
    return "network on chip" if _channel_rate(spec) == noc else "off-chip memory"


_PARTS = {"buffer_full": "buffer", "dependency": "dependencies", "link": "host link"}
"""What stands for a share where that depends on nothing else."""


def _transfers(program: Program, spec: AcceleratorSpec, share: float, what: str) -> str:
    """Whether transfers are long for their bytes or for their latency."""
    needed = amounts(program)
    busy = needed.load_ticks / float(program.ticks_per_s)
    waited = needed.loads * float(Fraction(spec.dram_latency_s) + spec.noc_latency_s) / busy if busy else 0.0
    return (
        f"units wait for {what} {share:.1%} of the time; a transfer gets {format_bytes(float(_channel_rate(spec)))}/s "
        f"and {waited:.1%} of a load is latency"
    )
