"""The recurrence: each tile's eight times from those before it. Short and slow: the specification of every engine."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice

import numpy as np

from simdevice.engines.base import EngineState, check
from simdevice.records import TIMELINE_FIELDS, Program, Timeline

__all__ = ["PythonEngine", "State"]


class PythonEngine:
    """Engine "python"."""

    name = "python"

    def run(self, program: Program) -> Timeline:
        state = State()
        state.append(program)
        return state.timeline()

    def start(self, *, keep: bool = True) -> State:
        from simdevice.engines.totals import TotalsState  # late: it builds on this

        return State() if keep else TotalsState()


class State(EngineState):
    """Times that grow tile by tile.

    The only subtle thing is a single memory channel: whether a store or the next load gets it first
    depends on which asks first. So a store stays in `queue` until no later load can ask before it.
    """

    def __init__(self) -> None:
        self.rows: list[tuple[int, ...]] = []  # per tile the six times up to compute_end
        self.stores: list[tuple[int, int, int]] = []  # tile, start and end of the stores that are certain
        self.queue: deque[tuple[int, int, int, int]] = deque()  # those that are not: tile, compute end, ticks, bytes
        self.issued = self.loaded = self.computed = self.stored = 0  # when host, loads, ... are free again
        self.channel = 0  # when the only memory channel is free again; stays 0 where there are more
        self.freed: tuple[deque[tuple[int, int]], ...] = (deque(), deque())  # by computes, by stores: tick, bytes
        self.room = -1
        self.positions = [(0, 0)]  # tiles and stores before each operator

    def append(self, program: Program) -> None:
        check(program)
        self.single = program.dram_channels == 1
        self.room = program.buffer_bytes if self.room < 0 else self.room
        names = ("load_ticks", "compute_ticks", "store_ticks", "operand_bytes", "result_bytes")
        tiles = list(zip(*(program.column(n).tolist() for n in names), strict=True))
        first, offsets = program.first_tile.tolist(), program.dep_offsets.tolist()
        columns = (program.wait_for, program.host_wait, program.launch_ticks, program.not_before)
        orders = zip(*(column.tolist() for column in columns), strict=True)
        for op, (wait, host_wait, launch, not_before) in enumerate(orders):
            self.issued = max(self.issued, self.frontier(host_wait)) + launch
            ready = [self.complete(d) for d in program.deps[offsets[op] : offsets[op + 1]].tolist()]
            met = max(self.loaded, self.issued, not_before, self.frontier(wait), *ready)
            for tile in tiles[first[op] : first[op + 1]]:
                self.tile(met, *tile)
                met = self.loaded
            self.positions.append((len(self.rows), len(self.stores) + len(self.queue)))

    def tile(self, met: int, load: int, compute: int, store: int, operands: int, result: int) -> None:
        """Load and compute a tile whose dependencies are met at `met`; queue its store."""
        issue = self.loaded
        allocated = self.allocate(met, operands + result)
        self.loaded = allocated
        if load:
            self.loaded = max(allocated, self.channel) + load
            self.hold_channel(self.loaded)
        start = max(self.loaded, self.computed)
        self.computed = start + compute
        self.freed[0].append((self.computed, operands if store else operands + result))
        if store:
            self.queue.append((len(self.rows), self.computed, store, result))
        self.rows.append((issue, met, allocated, self.loaded, start, self.computed))

    def allocate(self, tick: int, size: int) -> int:
        """The earliest tick from `tick` on with `size` bytes of room; takes them."""
        while True:
            while self.queue and self.next_request() <= tick:
                self.store()
            for freed in self.freed:
                while freed and freed[0][0] <= tick:
                    self.room += freed.popleft()[1]
            if self.room >= size:
                self.room -= size
                return tick
            events = [freed[0][0] for freed in self.freed if freed]
            tick = min([*events, self.next_request()] if self.queue else events)

    def next_request(self) -> int:
        """When the first queued store asks for the memory."""
        return max(self.queue[0][1], self.stored)

    def store(self) -> None:
        """Do the first queued store: no load can ask before it any more."""
        tile, start, end = next(self.pending())
        self.freed[1].append((end, self.queue.popleft()[3]))
        self.stores.append((tile, start, end))
        self.stored = end
        self.hold_channel(end)

    def hold_channel(self, until: int) -> None:
        if self.single:
            self.channel = until

    def pending(self) -> Iterator[tuple[int, int, int]]:
        """Tile, start and end of the queued stores if no further load comes between."""
        stored, channel = self.stored, self.channel
        for tile, computed, ticks, _ in self.queue:
            start = max(computed, stored, channel)
            stored = start + ticks
            yield tile, start, stored

    def stores_end(self, count: int) -> int:
        """When the first `count` stores are over; who waits for them loads later, so none comes between."""
        if count <= len(self.stores):
            return self.stores[count - 1][2] if count else 0
        return next(islice(self.pending(), count - len(self.stores) - 1, None))[2]

    def complete(self, operator: int) -> int:
        """When an operator is complete."""
        (_, before), (tiles, stores) = self.positions[operator : operator + 2]
        return max(self.rows[tiles - 1][-1] if tiles else 0, self.stores_end(stores) if stores > before else 0)

    def frontier(self, operators: int | None = None) -> int:
        """When the operators before a position are complete."""
        tiles, stores = self.positions[-1 if operators is None else operators]
        return max(self.rows[tiles - 1][-1] if tiles else 0, self.stores_end(stores))

    def host(self) -> int:
        return self.issued

    def timeline(self) -> Timeline:
        times = np.empty((8, len(self.rows)), np.int64)
        times[:6] = np.array(self.rows, np.int64).reshape(-1, 6).T
        times[6:] = times[5]
        for tile, start, end in (*self.stores, *self.pending()):
            times[6:, tile] = start, end
        return Timeline(**dict(zip(TIMELINE_FIELDS, times, strict=True)))
