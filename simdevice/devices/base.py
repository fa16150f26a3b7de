"""The device API: a Device opens Sessions, a Session turns rows of a trace into time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

from simdevice.errors import SpecError
from simdevice.records import OpTable, Rows, Run, Trace

__all__ = ["Device", "Session"]


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

    @abstractmethod
    def forget_events(self, events: Iterable[int]) -> None:
        """These events will not be asked for again."""

    @abstractmethod
    def finish(self, trace: Trace) -> Run:
        """The Run of everything submitted; needs a session opened with keep=True. `trace` holds
        exactly the rows submitted."""


class Device(ABC):
    """A machine that can be asked how long a trace takes."""

    name: str
    memory_capacity_bytes: int

    @abstractmethod
    def open(self, table: OpTable, *, keep: bool = True) -> Session:
        """A session at time zero over a (growing) table. keep=False remembers totals only."""

    def run(self, trace: Trace) -> Run:
        """Simulate a whole trace.

        Raises:
            SpecError: what was given is no trace.
        """
        if not isinstance(trace, Trace):
            raise SpecError(
                f"expected a Trace, as sd.trace(...) or sd.Trace.load(...) gives, got {type(trace).__name__}"
            )
        session = self.open(trace.table)
        session.submit(trace.rows)
        return session.finish(trace)
