"""The cycle-stepped twin: registers and down-counters that tick with every clock of a quantised program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from simdevice.engines.base import check
from simdevice.engines.replay import Replay
from simdevice.errors import SpecError
from simdevice.records import TIMELINE_FIELDS, Program, Timeline

__all__ = ["CycleEngine"]


class CycleEngine:
    """Engine "cycle".

    Raises:
        SpecError: the program counts picoseconds, not clock cycles.
    """

    name = "cycle"

    def run(self, program: Program) -> Timeline:
        if not program.quantised:
            raise SpecError(
                "engine 'cycle' steps whole clock cycles: set quantise=True on the device, or use another engine"
            )
        check(program)
        return _Machine(program).run()

    def start(self, *, keep: bool = True) -> Replay:
        return Replay(self.run)


IDLE = -1
"""A counter that is not running. A running one counts down and is over at 0."""


@dataclass(slots=True)
class _Registers:
    """All state. Each unit writes only its own: tiles done, phase, counter, bytes taken or freed."""

    issued: int = 0
    host_count: int = IDLE
    loaded: int = 0
    load_phase: str = "issue"
    load_count: int = IDLE
    taken: int = 0
    computed: int = 0
    compute_count: int = IDLE
    freed_by_compute: int = 0
    stored: int = 0
    store_phase: str = "wait"
    store_count: int = IDLE
    freed_by_store: int = 0
    load_asked: int = 0
    store_asked: int = 0


Unit = Callable[[_Registers, _Registers], None]


class _Machine:
    """At each clock edge every unit reads the current registers and writes the next ones, then all
    are committed, until nothing changes; so the order of the units cannot matter. Then free memory
    channels are granted (first asked, first served; at the same tick the store). Then the clock
    ticks until a counter is over.
    """

    def __init__(self, program: Program) -> None:
        self.program, self.tick = program, 0
        self.times = np.zeros((8, len(program)), np.int64)
        names = ("load_ticks", "compute_ticks", "store_ticks", "operand_bytes", "result_bytes")
        columns = [program.column(n).tolist() for n in names]
        self.load_ticks, self.compute_ticks, self.store_ticks, self.operands, self.results = columns
        self.operator = program.operator.tolist()
        self.first: list[int] = program.first_tile.tolist()
        self.storing: list[int] = np.flatnonzero(self.store_ticks).tolist()  # the tiles that store something
        self.stores_before: list[int] = np.searchsorted(self.storing, self.first).tolist()
        self.units: Sequence[Unit] = (self.host, self.load, self.compute, self.store)

    def run(self) -> Timeline:
        now, tiles = _Registers(), len(self.program)
        while now.computed < tiles or now.stored < len(self.storing):
            now = self.settle(now)
            a, b, c, d = now.host_count, now.load_count, now.compute_count, now.store_count
            tick = self.tick
            running = max(a, b, c, d) > 0
            while running and a and b and c and d:
                tick, a, b, c, d = tick + 1, a - 1, b - 1, c - 1, d - 1
            now.host_count, now.load_count = max(a, IDLE), max(b, IDLE)
            now.compute_count, now.store_count = max(c, IDLE), max(d, IDLE)
            self.tick = tick
        return Timeline(**dict(zip(TIMELINE_FIELDS, self.times, strict=True)))

    def settle(self, now: _Registers) -> _Registers:
        """All that happens at this clock edge."""
        while True:
            following = replace(now)
            for unit in self.units:
                unit(now, following)
            if following == now and not self.grant(following):
                return now
            now = following

    def host(self, now: _Registers, following: _Registers) -> None:
        operator = now.issued
        if operator == self.program.operators:
            return
        if now.host_count == IDLE and self.complete_before(int(self.program.host_wait[operator]), now):
            following.host_count = int(self.program.launch_ticks[operator])
        elif now.host_count == 0:
            following.issued, following.host_count = operator + 1, IDLE

    def load(self, now: _Registers, following: _Registers) -> None:
        tile = now.loaded
        if tile == len(self.operator):
            return
        operator = self.operator[tile]
        if now.load_phase == "issue":
            self.times[0, tile] = self.tick
            following.load_phase = "depend"
        elif now.load_phase == "depend" and (tile > self.first[operator] or self.met(operator, now)):
            held_back = int(self.program.not_before[operator]) - self.tick if tile == self.first[operator] else 0
            following.load_phase, following.load_count = "hold", max(held_back, 0)
        elif now.load_phase == "hold" and now.load_count == 0:
            self.times[1, tile] = self.tick
            following.load_phase, following.load_count = "allocate", IDLE
        elif now.load_phase == "allocate":
            need = self.operands[tile] + self.results[tile]
            if self.program.buffer_bytes - now.taken + now.freed_by_compute + now.freed_by_store >= need:
                self.times[2, tile] = self.tick
                following.taken = now.taken + need
                following.load_asked = self.tick
                following.load_phase = "ask" if self.load_ticks[tile] else "transfer"
                following.load_count = IDLE if self.load_ticks[tile] else 0
        elif now.load_phase == "transfer" and now.load_count == 0:
            self.times[3, tile] = self.tick
            following.loaded, following.load_phase, following.load_count = tile + 1, "issue", IDLE

    def met(self, operator: int, now: _Registers) -> bool:
        """Whether all that the operator waits for is complete."""
        program = self.program
        if now.issued <= operator or not self.complete_before(int(program.wait_for[operator]), now):
            return False
        deps = program.deps[program.dep_offsets[operator] : program.dep_offsets[operator + 1]].tolist()
        return all(self.complete(d, now) for d in deps)

    def complete_before(self, operators: int, now: _Registers) -> bool:
        return now.computed >= self.first[operators] and now.stored >= self.stores_before[operators]

    def complete(self, operator: int, now: _Registers) -> bool:
        before, after = self.stores_before[operator : operator + 2]
        return now.computed >= self.first[operator + 1] and (before == after or now.stored >= after)

    def compute(self, now: _Registers, following: _Registers) -> None:
        tile = now.computed
        if now.compute_count == IDLE and tile < now.loaded:
            self.times[4, tile] = self.tick
            following.compute_count = self.compute_ticks[tile]
        elif now.compute_count == 0:
            self.times[5:, tile] = self.tick
            following.computed, following.compute_count = tile + 1, IDLE
            freed = self.operands[tile] + (0 if self.store_ticks[tile] else self.results[tile])
            following.freed_by_compute = now.freed_by_compute + freed

    def store(self, now: _Registers, following: _Registers) -> None:
        if now.stored == len(self.storing):
            return
        tile = self.storing[now.stored]
        if now.store_phase == "wait" and tile < now.computed:
            following.store_phase, following.store_asked = "ask", self.tick
        elif now.store_phase == "transfer" and now.store_count == 0:
            self.times[7, tile] = self.tick
            following.stored, following.store_phase, following.store_count = now.stored + 1, "wait", IDLE
            following.freed_by_store = now.freed_by_store + self.results[tile]

    def grant(self, registers: _Registers) -> bool:
        """Give a free memory channel to the first that asked; whether one was given."""
        phases = (registers.store_phase, registers.load_phase)
        asking = [("store", registers.store_asked)] if phases[0] == "ask" else []
        asking += [("load", registers.load_asked)] if phases[1] == "ask" else []
        if not asking or phases.count("transfer") >= self.program.dram_channels:
            return False
        if min(asking, key=lambda a: a[1])[0] == "store":
            tile = self.storing[registers.stored]
            self.times[6, tile] = self.tick
            registers.store_phase, registers.store_count = "transfer", self.store_ticks[tile]
        else:
            registers.load_phase, registers.load_count = "transfer", self.load_ticks[registers.loaded]
        return True
