"""The engine contract: a Program in, a Timeline out. Engines see only a Program."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from simdevice.records import Program, Timeline

__all__ = ["Engine", "EngineState"]


class EngineState(Protocol):
    """A simulation that grows: what a live session keeps between batches.

    1. `append(program)` simulates further operators of the same machine (their `deps` count from
       the first operator ever appended) and returns the eight times of the new tiles.
    2. `not_before(tick)` makes every load issued later start at `tick` or after.
    """

    def append(self, program: Program) -> Timeline: ...
    def not_before(self, tick: int) -> None: ...


@runtime_checkable
class Engine(Protocol):
    """One implementation per file, found by its name."""

    name: str

    def run(self, program: Program) -> Timeline:
        """Simulate a whole program from time zero."""

    def start(self) -> EngineState:
        """A simulation without any tile yet."""
