"""The recurrence in C++ (csrc/engine): all that the other engines can do, fast. This file only hands arrays over."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from simdevice import _engine
from simdevice.engines.base import check
from simdevice.errors import LoweringError
from simdevice.records import TIMELINE_FIELDS, UNITS, Amounts, Outline, Program, Timeline

__all__ = ["NativeEngine", "NativeState"]


class NativeEngine:
    """Engine "native"."""

    name = "native"

    def run(self, program: Program) -> Timeline:
        state = NativeState(keep=True)
        state.append(program)
        return state.timeline()

    def start(self, *, keep: bool = True) -> NativeState:
        return NativeState(keep=keep)

    def outline(self, program: Program) -> Outline:
        tiles = program.tiles
        sums = _engine.outline(
            *(program.buffer_bytes, program.dram_channels),
            *(tiles.offsets, tiles.load_ticks, tiles.compute_ticks, tiles.store_ticks),
            *(tiles.operand_bytes, tiles.result_bytes, tiles.work, tiles.unit),
            *(program.tile_list, program.dep_offsets, program.deps),
            *(program.wait_for, program.host_wait, program.launch_ticks, program.not_before),
        )
        if sums is False:
            raise _refusal(program)
        makespan, count, load_bandwidth, buffer_full, dependency, peak, unit_ticks, *rest = sums
        link = unit_ticks[UNITS.index("link")]
        compute = sum(unit_ticks) - link
        tail = makespan - (compute + link + load_bandwidth + buffer_full + dependency)
        stalls = (compute, link, load_bandwidth, buffer_full, dependency, tail)
        return Outline(program.ticks_per_s, makespan, count, stalls, peak, Amounts(unit_ticks, *rest))


def _refusal(program: Program) -> LoweringError:
    """Why the C++ side did not take a program."""
    try:
        check(program)
    except LoweringError as error:
        return error
    return LoweringError("the program takes more than 2**62 ticks, or depends on operators that never came")


class NativeState:
    """See EngineState. With keep=False memory does not grow with the tiles, and `settled` and
    `forget` keep it from growing with the operators."""

    def __init__(self, *, keep: bool) -> None:
        self._keep = keep
        self._core: Any = None
        self._times: list[NDArray[np.int64]] = []  # the C++ side writes pending stores into these

    def append(self, program: Program) -> None:
        if self._core is None:
            self._core = _engine.Simulation(program.buffer_bytes, program.dram_channels)
        tiles = program.tiles
        times = self._core.append(
            self._keep,
            *(tiles.offsets, tiles.load_ticks, tiles.compute_ticks, tiles.store_ticks),
            *(tiles.operand_bytes, tiles.result_bytes),
            *(program.tile_list, program.dep_offsets, program.deps),
            *(program.wait_for, program.host_wait, program.launch_ticks, program.not_before),
        )
        if times is False:
            raise _refusal(program)
        if times is not None:
            self._times.append(times)

    def frontier(self, operators: int | None = None) -> int:
        if self._core is None:
            return 0
        ticks: int = self._core.frontier(self._core.operators if operators is None else operators)
        return ticks

    def host(self) -> int:
        ticks: int = 0 if self._core is None else self._core.host()
        return ticks

    def timeline(self) -> Timeline:
        if self._core is None:
            return Timeline(*np.empty((8, 0), np.int64))
        self._core.write_pending()
        times = self._times[0] if len(self._times) == 1 else np.concatenate(self._times, axis=1)
        return Timeline(**dict(zip(TIMELINE_FIELDS, times, strict=True)))

    def settled(self) -> int:
        """The last position before which everything is complete before anything more can load."""
        position: int = 0 if self._core is None else self._core.settled()
        return position

    def forget(self, operators: int) -> None:
        """Give up asking for positions before this one; at most `settled()`."""
        if self._core is not None:
            self._core.forget(operators)
