"""Totals per operator of all that ran since the device was configured, kept on request without keeping the calls."""

from __future__ import annotations

from dataclasses import dataclass

from simdevice.records import Run
from simdevice.units import PS_PER_S

__all__ = ["OperatorTotal", "OperatorTotals"]

_Sums = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class OperatorTotal:
    """All calls of one operator. `flops` leaves out calls whose FLOPs no rule knows."""

    name: str
    calls: int
    time_s: float
    flops: int
    moved_bytes: int


class OperatorTotals:
    """Sums over runs, by operator."""

    def __init__(self) -> None:
        self._sums: dict[str, _Sums] = {}

    def add(self, run: Run) -> None:
        """Count every operator of a run that did something."""
        self._sums = self._with(run)

    def listed(self, last: Run) -> tuple[OperatorTotal, ...]:
        """All operators, a run that has not been added included; most time first."""
        rows = [
            OperatorTotal(name, calls, busy_ps / PS_PER_S, flops, moved)
            for name, (calls, busy_ps, flops, moved) in self._with(last).items()
        ]
        return tuple(sorted(rows, key=lambda row: (-row.time_s, row.name)))

    def _with(self, run: Run) -> dict[str, _Sums]:
        groups = run.trace.groups("operator")
        busy = dict(zip(groups.keys, groups.sums(run.busy_ps).tolist(), strict=True))
        sums = dict(self._sums)
        for name, totals in run.trace.totals(groups).items():
            calls, busy_ps, flops, moved = sums.get(name, (0, 0, 0, 0))
            sums[name] = calls + totals.calls, busy_ps + busy[name], flops + totals.flops, moved + totals.bytes
        return sums
