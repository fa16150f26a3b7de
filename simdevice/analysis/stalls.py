"""Where the time of a timeline went: an exact split of the makespan, in all and per operator."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from simdevice.records.program import UNITS, Program, Timeline
from simdevice.units import PS_PER_S, ceil_div

__all__ = ["STALLS", "in_ps", "per_operator", "split", "split_ps"]

Int64 = NDArray[np.int64]

STALLS = ("compute", "link", "load_bandwidth", "buffer_full", "dependency", "store_tail")
"""The shares. Compute and link are work; `dependency` includes waiting for the host and for events."""


def per_operator(program: Program, timeline: Timeline) -> dict[str, Int64]:
    """Ticks of each share but the store tail, per operator."""
    first = program.first_tile[:-1]
    shares = _per_tile(program, timeline)
    if not program.operators:
        return shares
    return {name: np.add.reduceat(ticks, first) for name, ticks in shares.items()}


def split(program: Program, timeline: Timeline) -> dict[str, int]:
    """Ticks of each share; they add up to the makespan."""
    shares = {name: int(ticks.sum()) for name, ticks in _per_tile(program, timeline).items()}
    return {**shares, "store_tail": timeline.makespan - sum(shares.values())}


def _per_tile(program: Program, timeline: Timeline) -> dict[str, Int64]:
    """A tile's computing follows the previous tile's, or a gap. A gap ends when the tile's load ends,
    and lies within the tile's own load, whose phases therefore split it: until the dependencies were
    met, until there was room, until the data were there.
    """
    before = np.zeros_like(timeline.compute_end)
    before[1:] = timeline.compute_end[:-1]
    met = np.maximum(timeline.dependencies_met, before)
    allocated = np.maximum(timeline.allocated, met)
    loaded = np.maximum(timeline.load_end, allocated)
    work = timeline.compute_end - timeline.compute_start
    on_link = np.zeros_like(work)
    if (program.tiles.unit == UNITS.index("link")).any():
        on_link = np.where(program.column("unit") == UNITS.index("link"), work, 0)
    return {
        "compute": work - on_link,
        "link": on_link,
        "load_bandwidth": loaded - allocated,
        "buffer_full": allocated - met,
        "dependency": met - before,
    }


def split_ps(program: Program, timeline: Timeline) -> dict[str, int]:
    """The split in picoseconds; it adds up to the makespan in picoseconds."""
    return in_ps(split(program, timeline).values(), program.ticks_per_s)


def in_ps(shares: Iterable[int], ticks_per_s: Fraction) -> dict[str, int]:
    """Shares in ticks as picoseconds: their running sum is rounded up, so that they add up to the makespan."""
    numerator, denominator = PS_PER_S * ticks_per_s.denominator, ticks_per_s.numerator
    edges = [ceil_div(ticks * numerator, denominator) for ticks in accumulate(shares, initial=0)]
    return dict(zip(STALLS, (b - a for a, b in pairwise(edges)), strict=True))
