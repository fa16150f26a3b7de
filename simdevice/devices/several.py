"""Several equal machines behind one host: a session per device, and what one makes another wait for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simdevice.devices.base import Device, Session
from simdevice.devices.queue import order_rows
from simdevice.records import OpTable, Rows, Run, Trace

__all__ = ["SeveralSession"]


class SeveralSession(Session):
    """Rows go to their device's own session. With rows of one device only, that session is all there is.

    1. One host issues everything: when it turns to another device, it has the time that it had (`hold`, host_ps).
    2. A device waits for another's event: nothing starts there before the event's time (`hold`, device_ps).
    3. A copy between two devices starts when both queues are free, runs in the source's, and holds back the other
       until it is complete.
    4. An event, or a wait of the host, that comes after such a wait is no earlier than what was waited for.
    """

    def __init__(self, device: Device, table: OpTable, *, keep: bool) -> None:
        self._device, self._table, self._keep = device, table, keep
        self._peers = _Peers(table)
        self._sessions: dict[int, Session] = {}
        self._last = -1  # the device that the host turned to last
        self._held_ps: dict[int, int] = {}  # per device, the latest time that another has made it wait for
        self._events: dict[int, tuple[int, int]] = {}  # of a recorded event, its device and what held it back there

    def submit(self, rows: Rows) -> None:
        peers = self._peers.of(rows)
        devices = {*np.unique(rows.device).tolist(), *np.unique(peers[peers >= 0]).tolist()}
        if len(devices | set(self._sessions)) > 1:
            self._submit_to_several(rows, peers)
        elif devices:
            self._turn_to(devices.pop()).submit(rows)

    def _submit_to_several(self, rows: Rows, peers: NDArray[np.int64]) -> None:
        offsets = rows.offsets(self._table)
        orders = {at: (name, event) for at, name, event in order_rows(self._table, rows)}
        for begin, end in pairwise(_edges(rows, peers, orders)):
            device, piece = int(rows.device[begin]), rows.cut(begin, end, offsets)
            session = self._turn_to(device)
            if begin in orders:
                self._order(device, session, piece, *orders[begin])
            elif peers[begin] >= 0:
                self._copy(device, int(peers[begin]), piece)
            else:
                session.submit(piece)

    def _session(self, device: int) -> Session:
        session = self._sessions.get(device)
        if session is None:
            session = self._sessions[device] = self._device.open(self._table, keep=self._keep)
        return session

    def _turn_to(self, device: int) -> Session:
        session = self._session(device)
        if self._last not in (device, -1):
            session.hold(host_ps=self._sessions[self._last].host_ps)
        self._last = device
        return session

    def _order(self, device: int, session: Session, row: Rows, name: str, event: int) -> None:
        """A row that orders time and occupies nothing."""
        held_ps = self._held_ps.get(device, 0)
        if name == "simacc.record_event":
            self._events[event] = device, held_ps
        elif name == "simacc.wait_event":
            owner, _ = self._events.get(event, (device, 0))
            if owner != device:
                self._hold_back(device, self.event_ps(event))
        elif name == "simacc.synchronize_event":
            held_ps = self._events.get(event, (device, 0))[1]
        session.submit(row)
        if name.startswith("simacc.synchronize"):
            session.hold(host_ps=held_ps)

    def _copy(self, source: int, target: int, row: Rows) -> None:
        self._hold_back(source, self._free_ps(target))
        session = self._session(source)
        session.submit(row)
        self._hold_back(target, session.frontier_ps)

    def _hold_back(self, device: int, until_ps: int) -> None:
        self._session(device).hold(device_ps=until_ps)
        self._held_ps[device] = max(self._held_ps.get(device, 0), until_ps)

    def _free_ps(self, device: int) -> int:
        """When a device's queue is free, so far."""
        session = self._sessions.get(device)
        return max(0 if session is None else session.frontier_ps, self._held_ps.get(device, 0))

    def hold(self, *, host_ps: int = 0, device_ps: int = 0) -> None:
        for session in self._sessions.values():
            session.hold(host_ps=host_ps, device_ps=device_ps)

    @property
    def host_ps(self) -> int:
        return max((session.host_ps for session in self._sessions.values()), default=0)

    @property
    def frontier_ps(self) -> int:
        return max((session.frontier_ps for session in self._sessions.values()), default=0)

    def event_ps(self, event: int) -> int:
        first = next(iter(self._sessions), 0)  # what was recorded while there was no other is not in the list
        device, held_ps = self._events.get(event, (first, 0))
        if device not in self._sessions:
            raise KeyError(event)
        return max(self._sessions[device].event_ps(event), held_ps)

    def forget_events(self, events: Iterable[int]) -> None:
        events = list(events)
        for event in events:
            self._events.pop(event, None)
        for session in self._sessions.values():
            session.forget_events(events)

    def finish(self, trace: Trace) -> Run:
        if len(self._sessions) < 2:
            return self._turn_to(next(iter(self._sessions), 0)).finish(trace)
        device_of = trace.rows.device
        runs = {d: s.finish(trace.select(device_of == d)) for d, s in sorted(self._sessions.items())}
        columns: dict[str, NDArray[Any]] = {
            name: _gathered(device_of, {d: getattr(run, name) for d, run in runs.items()})
            for name in ("start_ps", "end_ps", "busy_ps", "bound", "side")
        }
        excess: dict[str, int] = {}
        for run in runs.values():
            for cause, count in run.excess_bytes.items():
                excess[cause] = excess.get(cause, 0) + count
        one = next(iter(runs.values()))
        return self.run_of(
            self._device,
            trace,
            (columns["start_ps"], columns["end_ps"], columns["busy_ps"]),
            self.frontier_ps,
            bounds_ps={name: max(run.bounds_ps[name] for run in runs.values()) for name in one.bounds_ps},
            bound=columns["bound"],
            bound_names=one.bound_names,
            side=columns["side"],
            excess_bytes=excess,
            per_device=runs,
        )


class _Peers:
    """Per signature of a growing table, the device that a copy between devices goes to; -1 for everything else."""

    def __init__(self, table: OpTable) -> None:
        self._table, self._known = table, np.empty(0, np.int64)

    def of(self, rows: Rows) -> NDArray[np.int64]:
        known, table = len(self._known), self._table
        if known < len(table):
            fresh = zip(table.signatures[known:], table.costs[known:], strict=True)
            peers = [dict(s.attributes).get("to_device", -1) if c.category == "transfer" else -1 for s, c in fresh]
            self._known = np.append(self._known, np.array(peers, np.int64))
        return self._known[rows.signature]


def _edges(rows: Rows, peers: NDArray[np.int64], orders: Iterable[int]) -> Iterator[int]:
    """Where pieces begin and end: each of one device, each order row and each copy between devices on its own."""
    edges = {0, len(rows), *(np.flatnonzero(np.diff(rows.device)) + 1).tolist()}
    for at in (*orders, *np.flatnonzero(peers >= 0).tolist()):
        edges |= {at, at + 1}
    yield from sorted(edges)


def _gathered(device_of: NDArray[np.uint8], columns: dict[int, NDArray[Any]]) -> NDArray[Any]:
    """One column out of each device's own."""
    out = np.empty(len(device_of), next(iter(columns.values())).dtype)
    for device, column in columns.items():
        out[device_of == device] = column
    return out
