"""What a device made of a trace: times per operator, in integer picoseconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from simdevice.records.op import FREE_CATEGORIES, Cost
from simdevice.records.program import Program, Timeline
from simdevice.records.trace import Trace
from simdevice.units import PS_PER_S, format_seconds

__all__ = ["ROW_UNITS", "SIDES", "Crossings", "Machine", "Run", "row_units"]

Int64 = NDArray[np.int64]

SIDES = ("device", "host", "link")
"""Where a row ran: on the device, on its host, or over the link between them."""

ROW_UNITS = ("none", "array", "vector", "link", "host")
"""What a row occupied: nothing (a view), the part that multiplies matrices, the lanes beside it, a link, the host."""


class Machine(Protocol):
    """What a run knows of its machine's description, which `hardware` defines: equal ones are the same machine."""

    @property
    def name(self) -> str: ...
    @property
    def memory_capacity_bytes(self) -> int | None: ...


def row_units(trace: Trace, side: NDArray[np.uint8] | None = None) -> NDArray[np.uint8]:
    """Per row an index into ROW_UNITS, from what its cost rule stated; rows on the host's side occupy the host."""
    of_signature = np.array([ROW_UNITS.index(_unit(cost)) for cost in trace.table.costs], np.uint8)
    units: NDArray[np.uint8] = of_signature[trace.rows.signature]
    if side is not None:
        units[(side == SIDES.index("host")) & (units > 0)] = ROW_UNITS.index("host")
    return units


def _unit(cost: Cost) -> str:
    if cost.category in FREE_CATEGORIES:
        return "none"
    if cost.category == "transfer":
        return "link"
    return "array" if cost.products else "vector"


@dataclass(frozen=True, slots=True)
class Crossings:
    """All that went over a device's link to its host in one direction ("to device", "to host")."""

    direction: str
    count: int
    moved_bytes: int
    time_ps: int


PER_ROW = ("start_ps", "end_ps", "busy_ps", "bound", "side", "unit", "device_index")
"""The columns of a Run beside its trace's."""


@dataclass(frozen=True)
class Run:
    """A trace on a device. `report` reads nothing else.

    `start_ps` and `end_ps` hold one time per row of the trace, `busy_ps` how long the row itself
    occupied the device. `bounds_ps` names whole-trace bounds (`unfused`, `fused`, `compute`,
    `memory`, ...). Per row: `bound`, what limited it (index into `bound_names`); `side` (into SIDES);
    `unit` (into ROW_UNITS); `device_index`, which device of several. `spec` is the machine's
    description from `hardware`. `program` and `timeline` are there where the machine has tiles.
    `excess_bytes` says what the tiles moved beyond what operators read and write, by cause.
    With several devices, `per_device` holds each one's own Run, by index: its rows, program and timeline, in the same
    time; `program` and `timeline` are not here then.
    `crossings` holds both directions where a host runs a part of the trace; elsewhere it is empty,
    and what crosses is the trace's copies.
    """

    trace: Trace
    device: str
    spec: Machine
    start_ps: Int64
    end_ps: Int64
    busy_ps: Int64
    makespan_ps: int
    bounds_ps: Mapping[str, int]
    bound: NDArray[np.uint8]
    bound_names: tuple[str, ...]
    side: NDArray[np.uint8]
    unit: NDArray[np.uint8]
    device_index: NDArray[np.uint8]
    program: Program | None = None
    timeline: Timeline | None = None
    excess_bytes: Mapping[str, int] = field(default_factory=dict)
    crossings: tuple[Crossings, ...] = ()
    per_device: Mapping[int, Run] = field(default_factory=dict)

    def __repr__(self) -> str:
        """One line for a prompt."""
        tiles = f", {self.tiles:,} tiles" if self.timeline is not None else ""
        return f"<Run on {self.device}: {format_seconds(self.time_s)}, {len(self.trace):,} operators{tiles}>"

    @property
    def time_s(self) -> float:
        """Simulated seconds from the first submission to the last completion."""
        return self.makespan_ps / PS_PER_S

    @property
    def tiles(self) -> int:
        """Tiles simulated; zero where the device has none."""
        own = 0 if self.timeline is None else len(self.timeline)
        return own + sum(run.tiles for run in self.per_device.values())

    @cached_property
    def stalls(self) -> dict[str, int]:
        """The makespan split by what the device did or waited for, in picoseconds; empty without tiles."""
        if self.program is None or self.timeline is None:
            return {}
        from simdevice.analysis.stalls import split_ps  # late: the public API's convenience, not a noun's dependency

        return split_ps(self.program, self.timeline)

    def to_markdown(self, *, depth: int = 2, top: int = 10) -> str:
        """The report as Markdown: see simdevice.report."""
        from simdevice.report import markdown  # late: the public API's convenience, not a stage's dependency

        return markdown(self, depth=depth, top=top)

    def to_json(self, *, depth: int = 2, top: int = 10) -> str:
        """The report as JSON: see simdevice.report."""
        from simdevice.report import json  # late, as above

        return json(self, depth=depth, top=top)

    def __eq__(self, other: object) -> bool:
        """The same machine, every time, count and byte, and all that each row says: signature, cost, phase, scope,
        storages, bound, side, unit, device. How the table numbers them doesn't count, nor where the trace came from."""
        if not isinstance(other, Run):
            return NotImplemented
        return (
            (self.device, self.makespan_ps, self.bound_names) == (other.device, other.makespan_ps, other.bound_names)
            and self.spec == other.spec
            and dict(self.bounds_ps) == dict(other.bounds_ps)
            and dict(self.excess_bytes) == dict(other.excess_bytes)
            and self.crossings == other.crossings
            and all(np.array_equal(getattr(self, n), getattr(other, n)) for n in PER_ROW)
            and self.timeline == other.timeline
            and dict(self.per_device) == dict(other.per_device)
            and self.trace.says_the_same(other.trace)
        )

    __hash__ = None  # type: ignore[assignment]  # holds arrays
