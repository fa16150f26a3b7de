"""A native recorder drained into a device session, lazily and in batches.

Nothing here runs inside an operator call, except when a program never asks for time: then the root
tape is simulated every quarter of a million operators, to keep memory bounded.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np

from simdevice.costs.device import SYNCHRONIZE
from simdevice.records import Rows, Trace
from simdevice.torch_backend.host_storages import HostStorages
from simdevice.torch_backend.operator_totals import OperatorTotals
from simdevice.torch_backend.process import PROCESS
from simdevice.torch_backend.profiler import Capture, profiled_part
from simdevice.torch_backend.signatures import follow_rules, intern_new

__all__ = ["LiveSession", "event_ps", "innermost", "root_is_full"]


MOST_ROWS = 1 << 16
"""Rows that a session with totals per operator keeps, at least until the program next waits for the device."""


class LiveSession:
    """A native recorder with the session that turns its rows into time. With `totals`, it adds up what it simulated by
    operator, and forgets the rows where the device is idle and the host waits."""

    def __init__(
        self,
        recorder: Any,
        *,
        base_ps: int,
        keep: bool,
        follows: bool = False,
        totals: OperatorTotals | None = None,
    ) -> None:
        self.recorder, self.base_ps, self.follows, self.totals = recorder, base_ps, follows, totals
        self.device = PROCESS.device
        self.session = self.device.open_several(PROCESS.table, keep=keep)
        self.operators = 0
        self.host_storages = HostStorages(PROCESS.native.next_id)
        self.capture: Capture | None = None  # while a profiler runs, from its first row on
        self._keep = keep
        self._rows: list[Rows] = []
        self._kept = 0

    def flush(self) -> None:
        """Simulate what was recorded since the last flush."""
        with PROCESS.lock:
            signature, *columns, launches = self.recorder.drain()
            intern_new()
            rows = Rows(np.frombuffer(PROCESS.indices, np.int32)[signature], *columns)
            if launches is not None:
                before, rows, launches = profiled_part(rows, launches, PROCESS.table)
                self.feed(before)
                self.keep_for_profiler(rows, launches)
            self.feed(rows)
            self.session.forget_events(self.recorder.drain_released_events())
            follow_rules()

    def feed(self, rows: Rows) -> None:
        if self.totals is not None and self._kept + len(rows) > MOST_ROWS and (end := _idle_after(self._rows, rows)):
            offsets = rows.offsets(PROCESS.table)
            self._submit(rows.cut(0, end, offsets))
            self._begin_anew(self.totals)
            rows = rows.cut(end, len(rows), offsets)
        self._submit(rows)

    def _submit(self, rows: Rows) -> None:
        if len(rows):
            self.session.submit(rows)
            self.operators += len(rows)
            if self._keep:
                self._rows.append(rows)
                self._kept += len(rows)

    def trace(self) -> Trace:
        """What was recorded since the session began, or began anew."""
        return Trace(PROCESS.table, self.rows())

    def _begin_anew(self, totals: OperatorTotals) -> None:
        """Nothing is under way, so a new session from here on gives the same times."""
        for mark in self.recorder.unresolved_events():
            with suppress(KeyError):  # recorded later
                mark.resolve(self.base_ps + int(self.session.event_ps(mark.id)))
        totals.add(self.session.finish(self.trace()))
        self.base_ps += int(self.session.frontier_ps)
        self.session = self.device.open_several(PROCESS.table, keep=True)
        self._rows, self._kept = [], 0

    def keep_for_profiler(self, rows: Rows, launches: Any) -> None:
        """Keep rows that a profiler wants the times of, before they are fed."""
        if len(rows):
            if self.capture is None:
                self.capture = Capture(self.device, self.base_ps + int(self.session.frontier_ps))
            self.capture.add(rows, launches)

    def finish_capture(self) -> None:
        """No further rows belong to what was kept so far."""
        if self.capture is not None:
            PROCESS.captures.append(self.capture)
            self.capture = None

    def take(self, inner: LiveSession) -> None:
        """The rows of a recording inside this one, which has ended."""
        rows = inner.rows()
        self.flush()
        self.feed(rows)
        if self.capture is None:
            self.capture = inner.capture
        elif inner.capture is not None:
            self.capture.extend(inner.capture)
        inner.capture = None

    def start_again(self) -> None:
        """Simulate what was recorded so far on the machine that is current now."""
        self.base_ps, self.device = 0, PROCESS.device
        self.session = self.device.open_several(PROCESS.table, keep=True)
        for rows in self._rows:
            self.session.submit(rows)

    def frontier_ps(self) -> int:
        """Absolute completion frontier of everything recorded so far."""
        self.flush()
        return self.base_ps + int(self.session.frontier_ps)

    def event_ps(self, event: int) -> int:
        self.flush()
        return self.base_ps + int(self.session.event_ps(event))

    def resolve_events(self) -> None:
        """Tell events that outlive this session when they were."""
        for mark in self.recorder.unresolved_events():
            mark.resolve(self.event_ps(mark.id))

    def rows(self) -> Rows:
        return Rows.concatenate(self._rows)


def _idle_after(before: list[Rows], rows: Rows) -> int:
    """Behind how many of these rows every device is idle and the host has waited for it: the last place of that kind; 0
    where there is none. Known only of one device: of several, the others may be at work."""
    if any(part.device.any() for part in (*before, rows)):
        return 0
    synchronizes = [signature.name == SYNCHRONIZE for signature in PROCESS.table.signatures]
    at = np.flatnonzero(np.array(synchronizes, np.bool_)[rows.signature])
    return int(at[-1]) + 1 if len(at) else 0


def innermost() -> LiveSession:
    """This thread's innermost open recording, else the root. Under the process's lock."""
    return PROCESS.open.get(PROCESS.native.Recorder.innermost().token, PROCESS.root)


def root_is_full() -> None:
    """The native half calls this when the root's tape has grown long."""
    PROCESS.root.flush()


def event_ps(token: int, event: int) -> int:
    """When an event of this recorder was, for the native half."""
    with PROCESS.lock:
        return PROCESS.open[token].event_ps(event)
