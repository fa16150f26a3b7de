"""What a device made of a trace: times per operator, in integer picoseconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simdevice.records.program import Program, Timeline
from simdevice.records.trace import Trace
from simdevice.units import PS_PER_S, format_seconds

__all__ = ["Crossings", "Run"]

Int64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Crossings:
    """All that went over a device's link to its host in one direction ("to device", "to host")."""

    direction: str
    count: int
    moved_bytes: int
    time_ps: int


@dataclass(frozen=True)
class Run:
    """A trace on a device. `report` reads nothing else.

    `start_ps` and `end_ps` hold one time per row of the trace, `busy_ps` how long the row itself
    occupied the device. `bounds_ps` names whole-trace bounds (`unfused`, `fused`, `compute`,
    `memory`, ...); `bound` says per row what limited it (index into `bound_names`). `spec` is the
    machine's description from `hardware`. `crossings` holds both directions where a host runs a part
    of the trace; elsewhere it is empty, and what crosses is the trace's copies.
    """

    trace: Trace
    device: str
    start_ps: Int64
    end_ps: Int64
    busy_ps: Int64
    makespan_ps: int
    bounds_ps: Mapping[str, int] = field(default_factory=dict)
    bound: NDArray[np.uint8] | None = None
    bound_names: tuple[str, ...] = ()
    program: Program | None = None
    timeline: Timeline | None = None
    spec: Any = None
    crossings: tuple[Crossings, ...] = ()

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
        return 0 if self.timeline is None else len(self.timeline)

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
        """Every time and count; the trace's table is compared by what its rows say, not by its numbering."""
        if not isinstance(other, Run):
            return NotImplemented
        return (
            (self.device, self.makespan_ps) == (other.device, other.makespan_ps)
            and dict(self.bounds_ps) == dict(other.bounds_ps)
            and self.crossings == other.crossings
            and all(np.array_equal(getattr(self, n), getattr(other, n)) for n in ("start_ps", "end_ps", "busy_ps"))
            and self.timeline == other.timeline
            and len(self.trace) == len(other.trace)
            and self.trace.compact().rows == other.trace.compact().rows
        )

    __hash__ = None  # type: ignore[assignment]  # holds arrays
