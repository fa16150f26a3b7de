"""Sums over a trace's operators by what they have in common: the one place where rows are grouped and added up."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from simdevice.errors import UnknownNameError
from simdevice.records.op import CATEGORIES, PHASES
from simdevice.records.table import check_sum

if TYPE_CHECKING:
    from simdevice.records.trace import Trace

__all__ = ["TOP_LEVEL", "Groups", "Totals", "group", "totals"]

Int64 = NDArray[np.int64]

TOP_LEVEL = "(top level)"
"""The module of an operator that none called."""


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over some operators; `flops` leaves out the unknown ones, which `unknown` counts."""

    calls: int = 0
    flops: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    weight_bytes: int = 0
    unknown: int = 0

    @property
    def bytes(self) -> int:
        return self.bytes_read + self.bytes_written

    @property
    def is_lower_bound(self) -> bool:
        """Whether some operator's FLOPs are unknown, so that `flops` is shown with ">="."""
        return self.unknown > 0


@dataclass(frozen=True, slots=True)
class Groups:
    """A group per row: `index` into `keys`, whatever these are. A key may have no row."""

    keys: tuple[Any, ...]
    index: Int64

    @classmethod
    def of(cls, labels: Iterable[Hashable], which: NDArray[Any]) -> Groups:
        """Rows that carry equal labels: `which` is each row's place in `labels`. Keys come as in `labels`."""
        number: dict[Hashable, int] = {}
        place = np.array([number.setdefault(label, len(number)) for label in labels], np.int64)
        return cls(tuple(number), place[which] if len(place) else np.zeros(len(which), np.int64))

    def sums(self, values: NDArray[Any]) -> Int64:
        """Exact sums of one value per row, by group (bincount would go through floats)."""
        out = np.zeros(len(self.keys), np.int64)
        np.add.at(out, self.index, values)
        return out


def _modules(trace: Trace, depth: int | None) -> Groups:
    paths = (".".join(path.split(".")[:depth]) or TOP_LEVEL for path in trace.scopes)
    return Groups.of(paths, trace.rows.scope)


_BY: Mapping[str, Callable[[Trace, int | None], Groups]] = {
    "all": lambda trace, _: Groups(("all",), np.zeros(len(trace), np.int64)),
    "category": lambda trace, _: Groups(CATEGORIES, trace.per_op("category")),
    "device": lambda trace, _: Groups.of(range(int(trace.rows.device.max(initial=0)) + 1), trace.rows.device),
    "module": _modules,
    "operator": lambda trace, _: Groups.of((s.name for s in trace.table.signatures), trace.rows.signature),
    "phase": lambda trace, _: Groups(PHASES, trace.rows.phase.astype(np.int64)),
    "signature": lambda trace, _: Groups.of(trace.table.signatures, trace.rows.signature),
}


def group(trace: Trace, by: str | Groups, depth: int | None = None) -> Groups:
    """Each row's group: by a name in `_BY`, or as a caller grouped them. `depth` cuts module paths.

    Raises:
        UnknownNameError: no such way to group.
    """
    if isinstance(by, Groups):
        return by
    if by not in _BY:
        raise UnknownNameError("way to group operators", by, _BY)
    return _BY[by](trace, depth)


def totals(trace: Trace, groups: Groups) -> Sequence[Totals]:
    """The totals of every group, in the order of its keys; one without rows has zeros.

    Raises:
        SizeError: more FLOPs or bytes than an int64 holds.
    """
    table, signature = trace.table, trace.rows.signature
    flops = table.column("flops")
    moved = (table.column(name) for name in ("bytes_read", "bytes_written", "weight_bytes"))
    of_signature = np.stack([np.ones_like(flops), np.maximum(flops, 0), *moved, (flops < 0).astype(np.int64)], axis=1)
    used = np.bincount(signature, minlength=len(table))
    for column, what in zip(of_signature.T[1:4], ("FLOPs", "bytes to read", "bytes to write"), strict=True):
        check_sum(column, used, what)
    shape = len(groups.keys), len(table)
    if shape[0] * shape[1] <= len(trace):  # ten times as quick as going through the rows
        counts = np.bincount(groups.index * shape[1] + signature, minlength=shape[0] * shape[1])
        sums = counts.astype(np.int64).reshape(shape) @ of_signature
    else:
        sums = np.zeros((shape[0], of_signature.shape[1]), np.int64)
        np.add.at(sums, groups.index, of_signature[signature])
    return [Totals(*row) for row in sums.tolist()]
