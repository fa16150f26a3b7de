"""Drift between two traces: which operators, FLOPs and bytes changed, and where they first part."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from simdevice.records.op import Signature
from simdevice.records.totals import Totals
from simdevice.records.trace import Trace

__all__ = ["Diff", "OperatorDelta", "Totals", "diff"]


@dataclass(frozen=True, slots=True)
class OperatorDelta:
    """One operator's totals on both sides; an absent one has zeros."""

    name: str
    before: Totals
    after: Totals


@dataclass(frozen=True)
class Diff:
    """What changed from `before` to `after`.

    `operators` lists only those that changed, by how much their bytes did. `signatures` counts, per
    distinct call, how many more `after` has. `first_difference` is the first row where operator, shapes or
    device differ (None: the streams are the same). `versions` lists libraries that differ.
    """

    before: Totals
    after: Totals
    operators: tuple[OperatorDelta, ...]
    signatures: tuple[tuple[Signature, int], ...]
    first_difference: int | None
    versions: tuple[tuple[str, str, str], ...]

    @property
    def same_stream(self) -> bool:
        """Whether both hold the same operators with the same shapes on the same devices in the same order."""
        return self.first_difference is None

    @property
    def same_arithmetic(self) -> bool:
        """Whether FLOPs and weight bytes agree, however the operators are cut."""
        return all(
            getattr(self.before, name) == getattr(self.after, name) for name in ("flops", "weight_bytes", "unknown")
        )


def diff(before: Trace, after: Trace) -> Diff:
    """Compare two traces, from any front ends or files."""
    left, right = before.totals("operator"), after.totals("operator")
    changed = [
        OperatorDelta(name, left.get(name, Totals()), right.get(name, Totals()))
        for name in left.keys() | right.keys()
        if left.get(name) != right.get(name)
    ]
    changed.sort(key=lambda d: (-abs(d.after.bytes - d.before.bytes), -abs(d.after.calls - d.before.calls), d.name))
    counts = Counter({signature: totals.calls for signature, totals in after.totals("signature").items()})
    counts.subtract({signature: totals.calls for signature, totals in before.totals("signature").items()})
    signatures = sorted(((s, n) for s, n in counts.items() if n), key=lambda item: (-abs(item[1]), repr(item[0])))
    return Diff(
        before.total,
        after.total,
        tuple(changed),
        tuple(signatures),
        _first_difference(before, after),
        _versions(before, after),
    )


def _first_difference(before: Trace, after: Trace) -> int | None:
    """Number the signatures of both over one table, then compare columns."""
    number: dict[Signature, int] = {}
    left, right = (
        np.fromiter((number.setdefault(s, len(number)) for s in t.table.signatures), np.int64, len(t.table))[
            t.rows.signature
        ]
        for t in (before, after)
    )
    shared = min(len(left), len(right))
    elsewhere = before.rows.device[:shared] != after.rows.device[:shared]
    different = np.flatnonzero((left[:shared] != right[:shared]) | elsewhere)
    if len(different):
        return int(different[0])
    return None if len(left) == len(right) else shared


def _versions(before: Trace, after: Trace) -> tuple[tuple[str, str, str], ...]:
    left, right = dict(before.origin.versions), dict(after.origin.versions)
    names = sorted(left.keys() | right.keys())
    return tuple((n, left.get(n, "-"), right.get(n, "-")) for n in names if left.get(n) != right.get(n))
