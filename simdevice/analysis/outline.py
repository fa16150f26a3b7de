"""The sums of a timeline: the specification of what engines sum up while they simulate."""

from __future__ import annotations

import numpy as np

from simdevice.analysis.occupancy import held_bytes
from simdevice.analysis.stalls import split
from simdevice.records import Amounts, Outline, Program, Timeline
from simdevice.records.program import UNITS

__all__ = ["amounts", "outline"]


def amounts(program: Program) -> Amounts:
    """What the tiles need, whatever the timeline."""
    tiles, times = program.tiles, program.repetitions
    chosen = [np.where(tiles.unit == i, times, 0) for i in range(len(UNITS))]
    return Amounts(
        unit_ticks=tuple(int(c @ tiles.compute_ticks) for c in chosen),
        unit_work=tuple(int(c @ tiles.work) for c in chosen),
        load_ticks=int(times @ tiles.load_ticks),
        store_ticks=int(times @ tiles.store_ticks),
        loads=int(np.where(tiles.load_ticks > 0, times, 0).sum()),
        loaded_bytes=int(times @ tiles.operand_bytes),
        stored_bytes=int(np.where(tiles.store_ticks > 0, times, 0) @ tiles.result_bytes),
    )


def outline(program: Program, timeline: Timeline) -> Outline:
    """The sums of one timeline."""
    return Outline(
        ticks_per_s=program.ticks_per_s,
        makespan=timeline.makespan,
        tiles=len(timeline),
        stalls=tuple(split(program, timeline).values()),
        buffer_peak_bytes=int(held_bytes(program, timeline).max(initial=0)),
        amounts=amounts(program),
    )
