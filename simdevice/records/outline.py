"""What a program came to on one machine, in sums: a run without its rows and tiles, as a sweep needs it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from simdevice.units import PS_PER_S, ceil_div

__all__ = ["Amounts", "Outline"]


@dataclass(frozen=True, slots=True)
class Amounts:
    """What all tiles of a program need, repetitions counted: `unit_ticks` and `unit_work` per entry of UNITS, ticks of
    transfers, `loads` that take any time, bytes moved."""

    unit_ticks: tuple[int, ...]
    unit_work: tuple[int, ...]
    load_ticks: int
    store_ticks: int
    loads: int
    loaded_bytes: int
    stored_bytes: int


@dataclass(frozen=True, slots=True)
class Outline:
    """Sums over a simulation. Times are in ticks of 1/`ticks_per_s` seconds; `stalls` are the shares of
    analysis.stalls.STALLS in that order, which add up to the makespan."""

    ticks_per_s: Fraction
    makespan: int
    tiles: int
    stalls: tuple[int, ...]
    buffer_peak_bytes: int
    amounts: Amounts

    @property
    def makespan_ps(self) -> int:
        """The makespan in picoseconds, rounded up."""
        return ceil_div(self.makespan * PS_PER_S * self.ticks_per_s.denominator, self.ticks_per_s.numerator)
