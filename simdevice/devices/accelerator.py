"""The accelerator device: a trace lowered to tiles and run by an engine, in one go or as it grows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from simdevice import engines
from simdevice.analysis.stalls import STALLS, per_operator
from simdevice.costs import Costs
from simdevice.devices.base import Device, Session, no_fusion
from simdevice.devices.outlines import Outlines
from simdevice.engines import Engine
from simdevice.errors import SimdeviceError
from simdevice.hardware import AcceleratorSpec, LinkSpec, load_link
from simdevice.lowering import Lowering, LoweringKind, Rates, fastest
from simdevice.lowering.excess import excess_bytes
from simdevice.lowering.work import WorkTable
from simdevice.records import OpTable, Outline, Program, Rows, Run, Timeline, Trace
from simdevice.records.program import UNITS
from simdevice.units import PS_PER_S

__all__ = ["BOUND_NAMES", "Accelerator", "AcceleratorSession"]

Int64 = NDArray[np.int64]

BOUND_NAMES = ("nothing", *(name.replace("_", " ") for name in STALLS))
"""What a row spent most of its time on: "nothing" for a view, else a share of the stall split."""

FORGET_EVERY = 1 << 16
"""Operators between two clean-ups of a session that keeps totals only."""


class Accelerator(Device):
    """A spec, the link to its host, and the engine that runs its tiles.

    The engine is a name or an object; without one it is `native`, or `python` where nothing is
    compiled. Whatever the engine, tiles come from the fastest lowering there is, unless one is given.
    """

    spec: AcceleratorSpec

    def __init__(
        self,
        spec: AcceleratorSpec,
        link: LinkSpec,
        *,
        engine: str | Engine | None = None,
        lowering: LoweringKind | None = None,
    ) -> None:
        self.spec, self.link = spec, link
        self.engine = _default_engine() if engine is None else engines.get(engine)
        self.lowering_kind = fastest() if lowering is None else lowering
        self.name = spec.name
        self.memory_capacity_bytes = spec.memory_capacity_bytes
        self.rates = Rates.of(spec, link)

    @classmethod
    def of(cls, spec: AcceleratorSpec, *, engine: str | Engine | None, fused: bool) -> Accelerator:
        """The device of a description; SpecError for the fused bound, which is a roofline's."""
        no_fusion(spec.name, "accelerator", fused)
        return cls(spec, load_link(spec.link), engine=engine)

    def __repr__(self) -> str:
        return f"Accelerator({self.name!r}, engine={self.engine.name!r})"

    def open(self, table: OpTable, *, keep: bool = True) -> AcceleratorSession:
        return AcceleratorSession(self, table, keep=keep)

    def outline(self, trace: Trace) -> Outline:
        """The sums of a whole trace, sooner than a Run.

        Raises:
            SpecError: a trace on several devices.
        """
        return Outlines(trace, self.engine, self.lowering_kind).on(self.rates)

    def excess_bytes(self, trace: Trace) -> dict[str, int]:
        """What a trace's tiles move beyond what its operators read and write, by cause (see lowering/excess.py)."""
        known: dict[int, Counter[str]] = trace.table.derived.setdefault(self, {})
        stages = WorkTable.of(trace.table).stages
        total: Counter[str] = Counter()
        for index, calls in zip(*np.unique(trace.rows.signature, return_counts=True), strict=True):
            if index not in known:
                known[int(index)] = excess_bytes(stages[index], self.rates)
            for cause, count in known[int(index)].items():
                total[cause] += int(calls) * count
        return dict(total)

    def lowering(self, table: OpTable) -> Lowering:
        """A lowering for this machine."""
        WorkTable.of(table, Costs())  # a file from before rules stated their work has no products: ask again
        return self.lowering_kind(table, self.rates)


def _default_engine() -> Engine:
    try:
        return engines.get("native")
    except SimdeviceError:
        return engines.get("python")


class AcceleratorSession(Session):
    """See Session. Times are the engine's, so a row's times are known when it is asked for them."""

    def __init__(self, device: Accelerator, table: OpTable, *, keep: bool) -> None:
        self._device, self._keep = device, keep
        self._lowering = device.lowering(table)
        self._state = device.engine.start(keep=keep)
        self._pieces: list[Program] = []
        self._past_events: dict[int, int] = {}  # frontiers of events at positions that were forgotten
        self._forget_at = FORGET_EVERY
        self._held_ps = {"host": 0, "device": 0}  # for the next operator
        self._unit: Program = self._lowering.lower(Rows.empty())

    def submit(self, rows: Rows) -> None:
        piece = self._lowering.lower(rows)
        if not piece.operators:
            return
        if any(self._held_ps.values()):
            piece = self._held_back(piece)
        self._state.append(piece)
        if self._keep:
            self._pieces.append(piece)
        elif self._lowering.operators >= self._forget_at:
            self._clean_up()

    def _clean_up(self) -> None:
        """Nothing can depend any more on what is complete before the next load."""
        settled = self._state.settled()
        events = self._lowering.events_before(settled)
        self._past_events |= {event: self._state.frontier(position) for event, position in events.items()}
        self._lowering.forget_events(events)
        self._lowering.forget(settled)
        self._state.forget(settled)
        self._forget_at = self._lowering.operators + FORGET_EVERY

    @property
    def frontier_ps(self) -> int:
        return self._ps(self._state.frontier())

    def event_ps(self, event: int) -> int:
        try:
            return self._ps(self._state.frontier(self._lowering.event_position(event)))
        except KeyError:
            return self._ps(self._past_events[event])

    def forget_events(self, events: Iterable[int]) -> None:
        events = list(events)
        self._lowering.forget_events(events)
        for event in events:
            self._past_events.pop(event, None)

    @property
    def host_ps(self) -> int:
        waits_for = self._state.frontier(self._lowering.host_position)
        return max(self._ps(max(self._state.host(), waits_for)), self._held_ps["host"])

    def hold(self, *, host_ps: int = 0, device_ps: int = 0) -> None:
        self._held_ps = {
            "host": max(self._held_ps["host"], host_ps),
            "device": max(self._held_ps["device"], device_ps),
        }

    def _held_back(self, piece: Program) -> Program:
        """The piece, its first operator issued and started no earlier than `hold` said. All others follow it."""
        host = max(self._state.host(), self._state.frontier(int(piece.host_wait[0])))
        launch, not_before = piece.launch_ticks.copy(), piece.not_before.copy()
        launch[0] += max(self._ticks(self._held_ps["host"]) - host, 0)
        not_before[0] = self._ticks(self._held_ps["device"])
        self._held_ps = dict.fromkeys(self._held_ps, 0)
        return replace(piece, launch_ticks=launch, not_before=not_before)

    def _ticks(self, ps: int) -> int:
        """The first tick whose time in picoseconds, rounded up, is not before this one."""
        rate = self._unit.ticks_per_s
        return (ps - 1) * rate.numerator // (PS_PER_S * rate.denominator) + 1 if ps > 0 else 0

    def _ps(self, ticks: int) -> int:
        return int(self._unit.to_ps(np.array([ticks]))[0])

    def finish(self, trace: Trace) -> Run:
        program = Program.concatenate(self._pieces) if self._pieces else self._unit
        timeline = self._state.timeline()
        start, end, busy, bound = _per_row(program, timeline, len(trace))
        return self.run_of(
            self._device,
            trace,
            (start, end, busy),
            self._ps(timeline.makespan),
            bounds_ps=_bounds(program, self._device.spec),
            bound=bound,
            bound_names=BOUND_NAMES,
            program=program,
            timeline=timeline,
            excess_bytes=self._device.excess_bytes(trace),
        )


def _per_row(program: Program, timeline: Timeline, rows: int) -> tuple[Int64, Int64, Int64, NDArray[np.uint8]]:
    """Start, end and busy time of each row in picoseconds, and the largest share of its time.

    A row starts when its first tile has buffer space and ends when its last store does. Its busy
    time is the computing frontier's advance: from the previous row's last compute end to its own,
    stalls included, so that the rows' times and the store tail add up to the makespan. A row without
    tiles is at the completion frontier of its position.
    """
    bound = np.zeros(rows, np.uint8)
    busy = np.zeros(rows, np.int64)
    if not program.operators:
        return busy, busy.copy(), busy.copy(), bound
    row = program.trace_row
    first, last = program.first_tile[:-1], program.first_tile[1:] - 1
    complete = np.maximum.reduceat(timeline.store_end, first)
    frontier = np.zeros(rows + 1, np.int64)
    np.maximum.at(frontier, row + 1, complete)
    frontier = np.maximum.accumulate(frontier)[:-1]
    start, end = frontier.copy(), frontier.copy()
    end[row] = 0
    np.maximum.at(end, row, complete)
    opening = np.diff(row, prepend=-1) > 0  # the first of a row's operators
    start[row[opening]] = timeline.allocated[first[opening]]
    computed = program.to_ps(timeline.compute_end[last])
    np.add.at(busy, row, np.diff(computed, prepend=0))
    shares = np.zeros((len(STALLS), rows), np.int64)
    for share, ticks in zip(shares, per_operator(program, timeline).values(), strict=False):
        np.add.at(share, row, ticks)
    bound[row] = 1 + shares.argmax(axis=0)[row]
    return program.to_ps(start), program.to_ps(end), busy, bound


def _bounds(program: Program, spec: AcceleratorSpec) -> Mapping[str, int]:
    """What these tiles need of each resource at its full rate, in picoseconds rounded down: no
    schedule of them can beat any."""
    work, unit = program.column("work"), program.column("unit")
    amount = {name: int(work[unit == i].sum()) for i, name in enumerate(UNITS)}
    stored = program.column("result_bytes")[program.column("store_ticks") > 0]
    moved = int(program.column("operand_bytes").sum()) + int(stored.sum())
    array = amount["array"] * PS_PER_S // (spec.array_rows * spec.array_cols * spec.clock_hz)
    vector = amount["vector"] * PS_PER_S // (spec.vector_lanes * spec.clock_hz)
    link = int(program.to_ps(program.column("compute_ticks")[unit == UNITS.index("link")]).sum())
    bounds = {
        "compute": int(array + vector),
        "memory": int(moved * PS_PER_S // spec.dram_bandwidth_bytes_per_s),
        "link": link,
    }
    return {**bounds, "whole_trace": max(bounds["compute"] + link, bounds["memory"])}
