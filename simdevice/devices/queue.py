"""Host clock, events and synchronisation over one in-order queue: what every session shares.

It decides when a row may start; how long the row then takes is the device's business.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from simdevice.records import CATEGORIES, OpTable, Rows

__all__ = ["QueueClock", "order_rows"]


class QueueClock:
    """The rules of docs/device.md, "what time means".

    1. Issue is free, so the host clock moves only when the host waits: for everything submitted
       (`synchronize`) or for an event (`synchronize_event`). Rows submitted later start at
       `host_ps` or after. A device that charges a launch overhead moves the clock itself.
    2. An event is a position in the queue; its time is the completion frontier there.
    3. `wait_event` holds back what its stream submits next, and so, in one in-order queue,
       everything after it. An event this session has not seen was complete before it began.
    """

    def __init__(self) -> None:
        self.host_ps = 0
        self.not_before_ps = 0
        self._events: dict[int, int] = {}

    def apply(self, name: str, event: int, frontier_ps: int) -> int:
        """Take one order row at the given frontier; the instant it is at."""
        if name == "simacc.record_event":
            self._events[event] = frontier_ps
            return frontier_ps
        if name == "simacc.synchronize":
            self.host_ps = max(self.host_ps, frontier_ps)
        elif name == "simacc.synchronize_event":
            self.host_ps = max(self.host_ps, self._events.get(event, 0))
        else:
            self.not_before_ps = max(self.not_before_ps, self._events.get(event, 0))
            return self.not_before_ps
        self.not_before_ps = max(self.not_before_ps, self.host_ps)
        return self.host_ps

    def hold(self, host_ps: int, device_ps: int) -> None:
        """Rows submitted later are issued at `host_ps` or after, and start at `device_ps` or after."""
        self.host_ps = max(self.host_ps, host_ps)
        self.not_before_ps = max(self.not_before_ps, device_ps, self.host_ps)

    def event_ps(self, event: int) -> int:
        """The frontier where the event was last recorded; KeyError when it was not."""
        return self._events[event]

    def forget(self, events: Iterable[int]) -> None:
        """Drop events that nobody can ask for any more."""
        for event in events:
            self._events.pop(event, None)


def order_rows(table: OpTable, rows: Rows) -> list[tuple[int, str, int]]:
    """The rows of a batch that order time and occupy nothing (category `sync`): position, name, event id
    (-1 for synchronize)."""
    at = np.flatnonzero(table.column("category")[rows.signature] == CATEGORIES.index("sync"))
    if not len(at):
        return []
    offsets = rows.offsets(table)
    out = []
    for i in at.tolist():
        signature = table.signatures[int(rows.signature[i])]
        out.append((i, signature.name, int(rows.tensors[offsets[i]]) if signature.arity else -1))
    return out
