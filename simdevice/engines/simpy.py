"""The event-driven model: host, load, compute and store as SimPy processes around shared resources."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np
import simpy

from simdevice.engines.base import check
from simdevice.engines.replay import Replay
from simdevice.records import TIMELINE_FIELDS, Program, Timeline

__all__ = ["SimpyEngine"]

Steps = Generator[simpy.Event, Any, None]

AFTER_ALL_ELSE = 2
"""An event priority after SimPy's own (URGENT 0, NORMAL 1): last of all that happens at a tick."""


class SimpyEngine:
    """Engine "simpy"."""

    name = "simpy"

    def run(self, program: Program) -> Timeline:
        check(program)
        return _Machine(program).run()

    def start(self, *, keep: bool = True) -> Replay:
        return Replay(self.run)


class _Machine:
    """1. Construct: resources and events. 2. `run` until no event is left. 3. Read `times`."""

    def __init__(self, program: Program) -> None:
        self.env = env = simpy.Environment()
        self.program = program
        self.memory = simpy.Resource(env, program.dram_channels)
        self.noc_in, self.noc_out = simpy.Resource(env, 1), simpy.Resource(env, 1)
        self.buffer = simpy.Container(env, program.buffer_bytes, program.buffer_bytes)
        self.ready, self.computed = simpy.Store(env), simpy.Store(env)
        self.times: list[list[Any]] = [[0] * len(program) for _ in TIMELINE_FIELDS]
        self.issued = [env.event() for _ in range(program.operators)]
        self.complete = [env.event() for _ in range(program.operators)]
        self.left = np.diff(program.first_tile).tolist()  # tiles of each operator still to end
        self.operator = program.operator.tolist()
        names = ("load_ticks", "compute_ticks", "store_ticks", "operand_bytes", "result_bytes")
        self.load_ticks, self.compute_ticks, self.store_ticks, self.operands, self.results = (
            program.column(n).tolist() for n in names
        )

    def run(self) -> Timeline:
        for process in (self.host(), self.load(), self.compute(), self.store()):
            self.env.process(process)
        self.env.run()
        columns = (np.array(times, np.int64) for times in self.times)
        return Timeline(**dict(zip(TIMELINE_FIELDS, columns, strict=True)))

    def host(self) -> Steps:
        """Issues operators one after the other, and waits where the program synchronises."""
        waited = 0
        waits, launches = self.program.host_wait.tolist(), self.program.launch_ticks.tolist()
        for issued, wait, launch in zip(self.issued, waits, launches, strict=True):
            for needed in range(waited, wait):
                yield self.complete[needed]
            waited = max(waited, wait)
            if launch:
                yield self.env.timeout(launch)
            issued.succeed()

    def load(self) -> Steps:
        """In program order: dependencies, buffer space, one memory channel and the NoC inwards."""
        env, program, times = self.env, self.program, self.times
        first, offsets, deps = program.first_tile.tolist(), program.dep_offsets.tolist(), program.deps.tolist()
        waited, not_before = 0, program.not_before.tolist()
        for operator, wait in enumerate(program.wait_for.tolist()):
            for tile in range(first[operator], first[operator + 1]):
                times[0][tile] = env.now
                if tile == first[operator]:
                    yield self.issued[operator]
                    for needed in (*deps[offsets[operator] : offsets[operator + 1]], *range(waited, wait)):
                        yield self.complete[needed]
                    waited = max(waited, wait)
                    if not_before[operator] > env.now:
                        yield env.timeout(not_before[operator] - env.now)
                times[1][tile] = env.now
                if size := self.operands[tile] + self.results[tile]:
                    yield self.buffer.get(size)
                times[2][tile] = env.now
                if ticks := self.load_ticks[tile]:
                    if program.dram_channels == 1:
                        yield self.after_all_else()  # so that a store that asks at this tick goes first
                    with self.memory.request() as channel, self.noc_in.request() as port:
                        yield channel
                        yield port
                        yield env.timeout(ticks)
                times[3][tile] = env.now
                yield self.ready.put(tile)

    def compute(self) -> Steps:
        """In order, one tile at a time over all units."""
        for _ in range(len(self.program)):
            tile = yield self.ready.get()
            self.times[4][tile] = self.env.now
            yield self.env.timeout(self.compute_ticks[tile])
            self.times[5][tile] = self.times[6][tile] = self.times[7][tile] = self.env.now
            if self.store_ticks[tile]:
                yield from self.free(self.operands[tile])
                yield self.computed.put(tile)
            else:
                yield from self.free(self.operands[tile] + self.results[tile])
                self.end(tile)

    def store(self) -> Steps:
        """In order: one memory channel and the NoC outwards, then the result's space is free."""
        for _ in range(sum(map(bool, self.store_ticks))):
            tile = yield self.computed.get()
            with self.memory.request() as channel, self.noc_out.request() as port:
                yield channel
                yield port
                self.times[6][tile] = self.env.now
                yield self.env.timeout(self.store_ticks[tile])
            self.times[7][tile] = self.env.now
            yield from self.free(self.results[tile])
            self.end(tile)

    def free(self, size: int) -> Steps:
        if size:
            yield self.buffer.put(size)

    def end(self, tile: int) -> None:
        """The last tile of an operator to end completes it."""
        operator = self.operator[tile]
        self.left[operator] -= 1
        if not self.left[operator]:
            self.complete[operator].succeed()

    def after_all_else(self) -> simpy.Event:
        event = self.env.event()
        event._ok, event._value = True, None
        self.env.schedule(event, priority=AFTER_ALL_ELSE)  # type: ignore[arg-type]
        return event
