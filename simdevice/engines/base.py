"""The engine contract: a Program in, a Timeline out. Engines see only a Program; they do no lowering.

What every engine computes, for the tiles in program order:

1. A host issues operators in order: it waits where it synchronises (`host_wait`), then takes
   `launch_ticks`. One load engine: a tile issues when the load before it ended. An operator's first
   tile waits until the operator is issued, all it depends on is complete, and the tick `not_before`
   has come, until which another device holds it back. Then its operands and
   result are allocated (at the earliest tick with room; what is freed at a tick is room at that
   tick), then the transfer holds one memory channel.
2. Computes run in order, one at a time whatever the unit.
3. One store engine, in order; a transfer holds one memory channel. A tile that stores nothing
   passes by.
4. Operands are freed when the compute ends, the result when the store ends (when the compute ends
   where nothing is stored). An operator is complete when all its tiles are.
5. With one memory channel, loads and stores queue for it in the order of their requests; at the
   same tick the store goes first.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np

from simdevice.errors import LoweringError
from simdevice.records import Outline, Program, Timeline

__all__ = ["MOST_TICKS", "Engine", "EngineState", "Summing", "check"]

MOST_TICKS = 2**62
"""All durations together stay below this, so that no sum overflows: 53 days in picoseconds."""


class EngineState(Protocol):
    """A simulation that grows: what a live session keeps between batches. Appending a program in
    pieces gives the times of the whole.

    1. `append` further operators of the same machine.
    2. `frontier(p)`: when the operators before p (all so far by default) are complete, given what was
       appended; asking changes nothing.
    3. `host()`: when the host has issued all that was appended.
    4. `timeline()`: the times of every tile so far (of a state started with keep=True).
    5. `settled()` is a position before which all is complete before anything more can load;
       `forget(p)`, with p at most that, gives up asking for the frontier at positions before p.
    """

    def append(self, program: Program) -> None: ...
    def frontier(self, operators: int | None = None) -> int: ...
    def host(self) -> int: ...
    def timeline(self) -> Timeline: ...
    def settled(self) -> int:
        return 0

    def forget(self, operators: int) -> None:
        return None


@runtime_checkable
class Engine(Protocol):
    """One implementation per file, found by its name."""

    name: str

    def run(self, program: Program) -> Timeline:
        """Simulate a whole program from time zero.

        Raises:
            LoweringError: a program that no machine can run; see `check`.
        """

    def start(self, *, keep: bool = True) -> EngineState:
        """A simulation without any tile yet. keep=False: no timeline will be asked for, so that an
        engine may forget what it no longer needs."""


@runtime_checkable
class Summing(Protocol):
    """What an engine may offer beside `Engine`: sums without a timeline, equal to those that analysis.outline makes of
    the timeline. For a sweep, which wants nothing else of a machine."""

    def outline(self, program: Program) -> Outline:
        """Simulate a whole program from time zero. Raises what `Engine.run` does."""


def check(program: Program) -> None:
    """Refuse a program that would never end or reads what is not there.

    Raises:
        LoweringError: a tile larger than the buffer, a negative duration, durations beyond MOST_TICKS,
            a dependency on a later operator, an operator without tiles.
    """
    tiles, first = program.tiles, program.first_operator
    operator = np.arange(first, first + program.operators)
    need = tiles.operand_bytes + tiles.result_bytes
    if len(need) and need.max() > program.buffer_bytes:
        raise LoweringError(f"a tile needs {need.max()} bytes of a buffer of {program.buffer_bytes}")
    per_tile = [
        (n, getattr(tiles, n)) for n in ("load_ticks", "compute_ticks", "store_ticks", "operand_bytes", "result_bytes")
    ]
    for name, column in [*per_tile, ("launch_ticks", program.launch_ticks), ("not_before", program.not_before)]:
        if column.min(initial=0) < 0:
            raise LoweringError(f"{name} must not be negative, got {column.min()}")
    if (np.diff(program.first_tile) < 1).any():
        raise LoweringError(f"operator {first + int(np.diff(program.first_tile).argmin())} has no tiles")
    owner = np.repeat(operator, np.diff(program.dep_offsets))
    if (program.deps >= owner).any() or (program.deps < 0).any():
        raise LoweringError("an operator depends on itself or a later one")
    for name in ("wait_for", "host_wait"):
        if (getattr(program, name) > operator).any() or getattr(program, name).min(initial=0) < 0:
            raise LoweringError(f"{name}: an operator waits for a position after its own")
    duration = tiles.load_ticks.astype(float) + tiles.compute_ticks + tiles.store_ticks
    launches = program.launch_ticks.sum(dtype=float)
    if duration[program.tile_index].sum() + launches + program.not_before.max(initial=0) >= MOST_TICKS:
        raise LoweringError("the program takes more than 2**62 ticks")
