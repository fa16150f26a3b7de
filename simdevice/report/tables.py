"""What a Run says, as rows: where time, FLOPs and bytes went. No prose and no totals; `summary` has those.

Every function gives a list of one dataclass; `columns` says how its fields are shown on a page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simdevice.analysis.liveness import liveness
from simdevice.records import CATEGORIES, Groups, Run, TensorSpec
from simdevice.units import PS_PER_S

__all__ = [
    "Hot",
    "PerDevice",
    "Share",
    "Transfer",
    "Unknown",
    "by_bound",
    "by_category",
    "by_device",
    "by_module",
    "by_operator",
    "by_phase",
    "top_operators",
    "transfers",
    "unknown_operators",
]


@dataclass(frozen=True, slots=True)
class Share:
    """One part of a split. `share` is its part of all time that operators occupied the device.

    `is_lower_bound`: some operator's FLOPs are unknown, so `flops` is shown with ">=".
    """

    name: str
    operators: int
    time_s: float
    share: float
    flops: int
    moved_bytes: int
    is_lower_bound: bool


@dataclass(frozen=True, slots=True)
class Hot:
    """All calls of one operator with the same shapes."""

    name: str
    shapes: str
    calls: int
    time_s: float
    share: float
    flops: int
    moved_bytes: int
    bound: str
    is_lower_bound: bool


@dataclass(frozen=True, slots=True)
class Unknown:
    """An operator whose FLOPs no rule knows, and why."""

    name: str
    calls: int
    time_s: float
    moved_bytes: int
    reason: str


@dataclass(frozen=True, slots=True)
class Transfer:
    """What crossed links in one direction: the trace's copies, and where a host runs a part of it, every crossing."""

    direction: str
    copies: int
    moved_bytes: int
    time_s: float


@dataclass(frozen=True, slots=True)
class PerDevice:
    """One device of several: the time its own rows occupied it, and that as a part of the whole run's time; copies to
    it stand with the device that they come from. `peak_live_bytes` is alive at once in its rows."""

    name: str
    operators: int
    time_s: float
    busy_share: float
    flops: int
    moved_bytes: int
    peak_live_bytes: int
    is_lower_bound: bool


def by_device(run: Run) -> list[PerDevice]:
    """Every device of a run that has several, in order; none otherwise."""
    return [
        PerDevice(
            name=f"simacc:{device}",
            operators=len(own.trace),
            time_s=int(own.busy_ps.sum()) / PS_PER_S,
            busy_share=int(own.busy_ps.sum()) / max(run.makespan_ps, 1),
            flops=own.trace.flops,
            moved_bytes=own.trace.bytes,
            peak_live_bytes=liveness(own.trace).peak_bytes,
            is_lower_bound=own.trace.is_lower_bound,
        )
        for device, own in run.per_device.items()
    ]


def by_category(run: Run) -> list[Share]:
    """Matrix products, attention, elementwise, ...; most time first."""
    return _by_time(split(run, "category"))


def by_phase(run: Run) -> list[Share]:
    """Forward, backward, optimizer, in that order."""
    return split(run, "phase")


def by_module(run: Run, depth: int = 2) -> list[Share]:
    """By the first `depth` parts of the module path, in order of first use."""
    groups = run.trace.groups("module", depth=depth)
    first = {groups.keys[i]: n for n, i in enumerate(dict.fromkeys(groups.index.tolist()))}
    return sorted(split(run, groups), key=lambda row: first[row.name])


def by_operator(run: Run) -> list[Share]:
    """By operator name, whatever the shapes; most time first."""
    return _by_time(split(run, "operator"))


def by_bound(run: Run) -> list[Share]:
    """By what limited each operator that took time."""
    rows = split(run, Groups(run.bound_names, run.bound.astype(np.int64)))
    return [row for row in _by_time(rows) if row.time_s]


def split(run: Run, by: str | Groups) -> list[Share]:
    """A row for every group of operators that has any, in the groups' order: see Trace.totals."""
    groups = run.trace.groups(by)
    busy = dict(zip(groups.keys, groups.sums(run.busy_ps).tolist(), strict=True))
    whole = max(sum(busy.values()), 1)
    return [
        Share(key, t.calls, busy[key] / PS_PER_S, busy[key] / whole, t.flops, t.bytes, t.is_lower_bound)
        for key, t in run.trace.totals(groups).items()
    ]


def _by_time(rows: list[Share]) -> list[Share]:
    return sorted(rows, key=lambda row: (-row.time_s, row.name))


def top_operators(run: Run, count: int = 10) -> list[Hot]:
    """The operators, told apart by their shapes, that took most time."""
    groups = run.trace.groups("signature")
    totals, busy = run.trace.totals(groups), groups.sums(run.busy_ps)
    whole = max(int(busy.sum()), 1)
    bound = np.zeros(len(groups.keys), np.int64)
    bound[groups.index] = run.bound  # equal calls are limited by the same thing
    order = [i for i in np.argsort(-busy, kind="stable")[:count].tolist() if busy[i]]
    return [
        Hot(
            name=groups.keys[i].name,
            shapes=_shapes(groups.keys[i].inputs or groups.keys[i].outputs),
            calls=totals[groups.keys[i]].calls,
            time_s=int(busy[i]) / PS_PER_S,
            share=int(busy[i]) / whole,
            flops=totals[groups.keys[i]].flops,
            moved_bytes=totals[groups.keys[i]].bytes,
            bound=run.bound_names[bound[i]],
            is_lower_bound=totals[groups.keys[i]].is_lower_bound,
        )
        for i in order
    ]


def unknown_operators(run: Run) -> list[Unknown]:
    """Every operator whose FLOPs are unknown, each with its reason; most time first."""
    table = run.trace.table
    labels = [
        (signature.name, cost.reason or "no cost rule") if cost.flops is None else None
        for signature, cost in zip(table.signatures, table.costs, strict=True)
    ]
    groups = Groups.of(labels, run.trace.rows.signature)
    busy = dict(zip(groups.keys, groups.sums(run.busy_ps).tolist(), strict=True))
    rows = [
        Unknown(key[0], totals.calls, busy[key] / PS_PER_S, totals.bytes, key[1])
        for key, totals in run.trace.totals(groups).items()
        if key is not None
    ]
    return sorted(rows, key=lambda row: (-row.time_s, row.name))


def transfers(run: Run) -> list[Transfer]:
    """Copies over links, by direction; a direction without a copy has no row."""
    if run.crossings:
        crossed = [c for c in run.crossings if c.count]
        return [Transfer(c.direction, c.count, c.moved_bytes, c.time_ps / PS_PER_S) for c in crossed]
    trace = run.trace
    crossing = trace.per_op("category") == CATEGORIES.index("transfer")
    rows = []
    moved = trace.per_op("bytes_read") + trace.per_op("bytes_written")
    reads, writes = trace.per_op("inputs") > 0, trace.per_op("outputs") > 0  # of device memory
    directions = {"to device": writes & ~reads, "to host": reads & ~writes, "between devices": reads & writes}
    for direction, goes_there in directions.items():
        chosen = crossing & goes_there & (moved > 0)
        if chosen.any():
            time_s = int(run.busy_ps[chosen].sum()) / PS_PER_S
            rows.append(Transfer(direction, int(chosen.sum()), int(moved[chosen].sum()), time_s))
    return rows


def _shapes(tensors: Sequence[TensorSpec], most: int = 3) -> str:
    """`8x3x32x32, 16x3x3x3, 16 float32`: a type is said where it changes, and after `most` tensors only how many."""
    parts = []
    for i, tensor in enumerate(tensors[:most]):
        last = i + 1 == min(len(tensors), most)
        changes = last or tensors[i + 1].dtype != tensor.dtype
        parts.append(("x".join(map(str, tensor.shape)) or "scalar") + f" {tensor.dtype}" * changes)
    more = f", +{len(tensors) - most}" if len(tensors) > most else ""
    return ", ".join(parts) + more
