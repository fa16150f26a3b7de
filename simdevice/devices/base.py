"""The device API: a Device opens Sessions, a Session turns rows of a trace into time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simdevice.errors import SpecError
from simdevice.records import SIDES, Crossings, Machine, OpTable, Program, Rows, Run, Timeline, Trace, row_units

__all__ = ["Device", "Session", "no_engine", "no_fusion"]

Int64 = NDArray[np.int64]


class Session(ABC):
    """One simulation in progress. Lifecycle: 1. `Device.open`; 2. `submit` batches in program order;
    3. ask `frontier_ps` or `event_ps` at synchronisations; 4. `finish` for the Run.

    The offline trace and the live PyTorch device use the same session, so they cannot disagree.
    Rows are simulated in batches, never inside an operator call. What time means is written in
    docs/device.md: one in-order queue, an event's time is the completion frontier at its position,
    synchronising rows hold back everything submitted after them.
    """

    @abstractmethod
    def submit(self, rows: Rows) -> None:
        """Simulate further rows of the table this session was opened over."""

    @property
    @abstractmethod
    def frontier_ps(self) -> int:
        """When all that was submitted so far is complete."""

    @abstractmethod
    def event_ps(self, event: int) -> int:
        """The completion frontier at the position where this event (an id in the trace) was last
        recorded; raises KeyError when it was not."""

    @property
    @abstractmethod
    def host_ps(self) -> int:
        """When the host could issue the next row: what it has issued and waited for lies behind it."""

    @abstractmethod
    def hold(self, *, host_ps: int = 0, device_ps: int = 0) -> None:
        """Another device's work: rows submitted from here on are issued at `host_ps` or later, and start at `device_ps`
        or later. A time that has passed changes nothing.

        Raises:
            SpecError: a machine that is simulated only alone.
        """

    @abstractmethod
    def forget_events(self, events: Iterable[int]) -> None:
        """These events will not be asked for again."""

    @abstractmethod
    def finish(self, trace: Trace) -> Run:
        """The Run of everything submitted; needs a session opened with keep=True. `trace` holds
        exactly the rows submitted."""

    @staticmethod
    def run_of(
        device: Device,
        trace: Trace,
        times_ps: tuple[Int64, Int64, Int64],
        makespan_ps: int,
        *,
        bounds_ps: Mapping[str, int],
        bound: NDArray[np.uint8],
        bound_names: tuple[str, ...],
        side: NDArray[np.uint8] | None = None,
        program: Program | None = None,
        timeline: Timeline | None = None,
        excess_bytes: Mapping[str, int] | None = None,
        crossings: tuple[Crossings, ...] = (),
        per_device: Mapping[int, Run] | None = None,
    ) -> Run:
        """A Run with every field filled, from what a session knows: start, end and busy time of each row, and what
        limited it. Without `side` all rows are the device's, but for copies, which are the link's."""
        if side is None:
            of_signature = [SIDES.index("link" if c.category == "transfer" else "device") for c in trace.table.costs]
            side = np.array(of_signature, np.uint8)[trace.rows.signature]
        start, end, busy = times_ps
        return Run(
            trace=trace,
            device=device.name,
            spec=device.spec,
            start_ps=start,
            end_ps=end,
            busy_ps=busy,
            makespan_ps=makespan_ps,
            bounds_ps=bounds_ps,
            bound=bound,
            bound_names=bound_names,
            side=side,
            unit=row_units(trace, side),
            device_index=trace.rows.device,
            program=program,
            timeline=timeline,
            excess_bytes=excess_bytes or {},
            crossings=crossings,
            per_device=per_device or {},
        )


class Device(ABC):
    """A machine that can be asked how long a trace takes."""

    name: str
    spec: Machine
    memory_capacity_bytes: int
    goes_with_others = True
    """Whether several of it can be simulated together."""

    @abstractmethod
    def open(self, table: OpTable, *, keep: bool = True) -> Session:
        """A session at time zero over a (growing) table, for rows of one device. keep=False remembers totals only."""

    def open_several(self, table: OpTable, *, keep: bool = True) -> Session:
        """The same for rows of any number of devices, which are equal and have one host."""
        from simdevice.devices.several import SeveralSession  # late: it builds on this

        return SeveralSession(self, table, keep=keep)

    def run(self, trace: Trace) -> Run:
        """Simulate a whole trace.

        Raises:
            SpecError: what was given is no trace.
        """
        if not isinstance(trace, Trace):
            raise SpecError(
                f"expected a Trace, as sd.trace(...) or sd.Trace.load(...) gives, got {type(trace).__name__}"
            )
        session = self.open_several(trace.table)
        session.submit(trace.rows)
        return session.finish(trace)


def no_engine(name: str, kind: str, engine: Any) -> None:
    """Raises SpecError where an engine was asked of a machine without tiles."""
    if engine is not None:
        raise SpecError(f"{name} is a {kind}, which has no engine; engines go with an accelerator such as 'edge-npu'")


def no_fusion(name: str, kind: str, fused: bool) -> None:
    """Raises SpecError where the fused bound was asked of a machine that has none."""
    if fused:
        article = "an" if kind[0] in "aeiou" else "a"
        raise SpecError(f"{name} is {article} {kind}; the fused bound goes with a roofline such as 'h100'")
