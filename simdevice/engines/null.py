"""No time passes: every time of every tile is zero. For work that wants a device but no times, such as coverage."""

from __future__ import annotations

import numpy as np

from simdevice.engines.base import EngineState, check
from simdevice.records import TIMELINE_FIELDS, Program, Timeline

__all__ = ["NullEngine"]


class NullEngine:
    """Engine "null": refuses what every engine refuses and simulates nothing. Tiles, bytes and work of a run are real;
    its latency is zero and the buffer never fills."""

    name = "null"

    def run(self, program: Program) -> Timeline:
        state = _Zeros()
        state.append(program)
        return state.timeline()

    def start(self, *, keep: bool = True) -> EngineState:
        return _Zeros()


class _Zeros(EngineState):
    """See EngineState. Everything is complete from the start."""

    def __init__(self) -> None:
        self._tiles = self._operators = 0

    def append(self, program: Program) -> None:
        check(program)
        self._tiles += len(program)
        self._operators += program.operators

    def frontier(self, operators: int | None = None) -> int:
        return 0

    def host(self) -> int:
        return 0

    def timeline(self) -> Timeline:
        zeros = np.zeros(self._tiles, np.int64)
        return Timeline(**dict.fromkeys(TIMELINE_FIELDS, zeros))

    def settled(self) -> int:
        return self._operators
