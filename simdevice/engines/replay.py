"""A state for engines that only know whole programs: simulates everything again when asked."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from simdevice.engines.base import EngineState, check
from simdevice.records import Program, Timeline

__all__ = ["Replay"]


class Replay(EngineState):
    """Collects pieces; `run` simulates their concatenation the first time something is asked."""

    def __init__(self, run: Callable[[Program], Timeline]) -> None:
        self._run = run
        self._pieces: list[Program] = []
        self._known: tuple[Program, Timeline] | None = None

    def append(self, program: Program) -> None:
        check(program)
        self._pieces.append(program)
        self._known = None

    def frontier(self, operators: int | None = None) -> int:
        if not self._pieces:
            return 0
        program, timeline = self._simulated()
        tiles = program.first_tile[program.operators if operators is None else operators]
        return int(timeline.store_end[:tiles].max(initial=0))

    def host(self) -> int:
        if not self._pieces:
            return 0
        program, _ = self._simulated()
        issued = 0
        for wait, launch in zip(program.host_wait.tolist(), program.launch_ticks.tolist(), strict=True):
            issued = max(issued, self.frontier(wait) if wait else 0) + launch
        return issued

    def timeline(self) -> Timeline:
        if not self._pieces:
            return Timeline(*np.empty((8, 0), np.int64))
        return self._simulated()[1]

    def _simulated(self) -> tuple[Program, Timeline]:
        if self._known is None:
            program = Program.concatenate(self._pieces)
            self._pieces = [program]
            self._known = program, self._run(program)
        return self._known
