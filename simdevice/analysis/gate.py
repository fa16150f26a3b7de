"""The arithmetic gate: a trace's FLOPs and weight bytes against what was pinned before. What may move is told apart.

FLOPs and weight bytes belong to the model: when they change, a rule or a front end did. How many operators there
are and what they move belongs to the libraries that cut the model up: that is drift.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from simdevice.errors import FileFormatError
from simdevice.records.totals import Totals
from simdevice.records.trace import Trace

__all__ = ["COLUMNS", "Verdict", "check", "pin"]

COLUMNS = ("calls", "flops", "weight_bytes", "bytes", "unknown")
"""Of each operator, and of all: `unknown` counts the calls whose FLOPs no rule knows."""

ARITHMETIC = ("flops", "weight_bytes", "unknown")


@dataclass(frozen=True)
class Verdict:
    """`failures` name totals that changed and the operators that changed with them; `drift` says what else moved."""

    name: str
    failures: tuple[str, ...]
    drift: tuple[str, ...]

    @property
    def passes(self) -> bool:
        return not self.failures

    def __str__(self) -> str:
        return "\n".join([f"{self.name}: {'passes' if self.passes else 'FAILS'}", *self.failures, *self.drift])


def pin(trace: Trace) -> dict[str, Any]:
    """What is kept of a trace: totals, totals by operator, and which libraries made it. Plain data."""

    def row(totals: Totals) -> list[int]:
        return [getattr(totals, column) for column in COLUMNS]

    operators = {name: row(totals) for name, totals in sorted(trace.totals("operator").items())}
    whole = dict(zip(COLUMNS, row(trace.total), strict=True))
    return {"totals": whole, "operators": operators, "versions": dict(trace.origin.versions)}


def check(name: str, trace: Trace, pinned: Mapping[str, Any]) -> Verdict:
    """Compare a trace with its pin.

    Raises:
        FileFormatError: a pin that lacks what `pin` writes.
    """
    now = pin(trace)
    try:
        before = {op: dict(zip(COLUMNS, row, strict=True)) for op, row in pinned["operators"].items()}
        totals = {column: int(pinned["totals"][column]) for column in COLUMNS}
        versions = dict(pinned["versions"])
    except (KeyError, TypeError, ValueError) as error:
        raise FileFormatError(f"the pin of {name!r} is damaged: {error!r}") from None
    after = {op: dict(zip(COLUMNS, row, strict=True)) for op, row in now["operators"].items()}
    failures: list[str] = []
    for column in ARITHMETIC:
        if now["totals"][column] != totals[column]:
            failures.append(f"  {column}: pinned {totals[column]:,}, now {now['totals'][column]:,}")
            failures += _changed(before, after, column)
    drift: list[str] = []
    for column in ("calls", "bytes"):
        if now["totals"][column] != totals[column]:
            drift.append(f"  drift of {column}: pinned {totals[column]:,}, now {now['totals'][column]:,}")
            drift += _changed(before, after, column)
    if failures or drift:
        drift += [
            f"  {library}: pinned with {versions.get(library, '-')}, now {version}"
            for library, version in now["versions"].items()
            if versions.get(library) != version
        ]
    return Verdict(name, tuple(failures), tuple(drift))


def _changed(before: Mapping[str, Any], after: Mapping[str, Any], column: str) -> list[str]:
    """The operators whose sums differ, by how much."""
    nothing = dict.fromkeys(COLUMNS, 0)
    deltas = {
        op: after.get(op, nothing)[column] - before.get(op, nothing)[column] for op in before.keys() | after.keys()
    }
    ordered = sorted((op for op, n in deltas.items() if n), key=lambda op: (-abs(deltas[op]), op))
    return [f"    {op}: {deltas[op]:+,}" for op in ordered]
