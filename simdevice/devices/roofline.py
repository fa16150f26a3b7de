"""The roofline device: an operator takes as long as its FLOPs or its bytes need, whichever is longer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simdevice.devices.base import Device, Session, no_engine
from simdevice.devices.queue import QueueClock, order_rows
from simdevice.errors import SizeError
from simdevice.hardware import LinkSpec, RooflineSpec, load_link
from simdevice.records import FREE_CATEGORIES, Cost, OpTable, Rows, Run, Trace
from simdevice.units import PS_PER_S, ceil_div, seconds_to_ps

__all__ = ["BOUND_NAMES", "FUSED_MEMORY_CATEGORIES", "Roofline"]

Int64 = NDArray[np.int64]

BOUND_NAMES = ("nothing", "compute", "memory", "link")

FUSED_MEMORY_CATEGORIES = frozenset({"matmul", "convolution", "attention", "gather"})
"""With perfect fusion only these touch memory; what lies between them stays on chip."""


_MOST_PS = 2**63


def _ticks(amount: int, rate_per_s: Fraction) -> int:
    """Whole picoseconds that `amount` takes at a rate, rounded up."""
    return ceil_div(amount * PS_PER_S * rate_per_s.denominator, rate_per_s.numerator)


@dataclass(frozen=True, slots=True)
class _Needs:
    """Picoseconds one signature needs of each resource."""

    compute_ps: int
    memory_ps: int
    link_ps: int
    fused_memory_ps: int

    @property
    def unfused_ps(self) -> int:
        return max(self.compute_ps, self.memory_ps, self.link_ps)

    @property
    def fused_ps(self) -> int:
        return max(self.compute_ps, self.fused_memory_ps, self.link_ps)


@dataclass(slots=True)
class _Times:
    """What a device knows of a table, per signature; grows with the table."""

    needs: list[_Needs]
    duration_ps: Int64
    launched: NDArray[np.bool_]


class Roofline(Device):
    """A spec of two rates behind one in-order queue.

    `fused` times every operator by the fused bound: memory counts only for matrix products,
    attention and gathers. A launch overhead is host time per operator: the host issues operators
    one after the other, and an operator starts when it has been issued and the queue is free.
    """

    spec: RooflineSpec

    def __init__(self, spec: RooflineSpec, link: LinkSpec, *, fused: bool = False) -> None:
        self.spec, self.link, self.fused = spec, link, fused
        self.name = spec.name
        self.memory_capacity_bytes = spec.memory_capacity_bytes

    @classmethod
    def of(cls, spec: RooflineSpec, *, engine: Any, fused: bool) -> Roofline:
        """The device of a description; SpecError for an engine, which has nothing to run here."""
        no_engine(spec.name, "roofline", engine)
        return cls(spec, load_link(spec.link), fused=fused)

    def __repr__(self) -> str:
        return f"Roofline({self.name!r}{', fused=True' if self.fused else ''})"

    def open(self, table: OpTable, *, keep: bool = True) -> RooflineSession:
        return RooflineSession(self, table, keep=keep)

    def needs(self, cost: Cost) -> _Needs:
        """What one operator of this cost needs. FLOPs that no rule knows count as none here; the
        trace's totals say that they are a lower bound."""
        if cost.category in FREE_CATEGORIES:
            return _Needs(0, 0, 0, 0)
        if cost.category == "transfer":
            link = seconds_to_ps(Fraction(self.link.latency_s)) + _ticks(
                cost.bytes, Fraction(self.link.bandwidth_bytes_per_s)
            )
            return _Needs(0, 0, link, 0)
        memory = _ticks(cost.bytes, self.spec.dram_bytes_per_s)
        return _Needs(
            compute_ps=_ticks(cost.flops or 0, self.spec.flops_per_s),
            memory_ps=memory,
            link_ps=0,
            fused_memory_ps=memory if cost.category in FUSED_MEMORY_CATEGORIES else 0,
        )

    def times(self, table: OpTable) -> _Times:
        """Per signature of a table, computed once and kept with it."""
        known: _Times | None = table.derived.get(self)
        if known is None:
            known = table.derived[self] = _Times([], np.empty(0, np.int64), np.empty(0, np.bool_))
        fresh = table.costs[len(known.needs) :]
        if fresh:
            needs = [self.needs(c) for c in fresh]
            chosen = [n.fused_ps if self.fused else n.unfused_ps for n in needs]
            for signature, duration_ps in zip(table.signatures[len(known.needs) :], chosen, strict=True):
                if duration_ps >= _MOST_PS:
                    raise SizeError(
                        f"{signature.name}: it would take more than 2^63 - 1 ps, 107 days of simulated time"
                    )
            known.needs += needs
            known.duration_ps = np.append(known.duration_ps, np.array(chosen, np.int64))
            known.launched = np.append(known.launched, [c.category not in FREE_CATEGORIES for c in fresh])
        return known


class RooflineSession(Session):
    """One in-order queue: an operator starts when it is issued and its predecessor is done."""

    def __init__(self, device: Roofline, table: OpTable, *, keep: bool) -> None:
        self._device, self._table, self._keep = device, table, keep
        self._launch_ps = seconds_to_ps(Fraction(device.spec.launch_overhead_s))
        self._clock = QueueClock()
        self._frontier_ps = 0
        self._start: list[Int64] = []
        self._end: list[Int64] = []

    def submit(self, rows: Rows) -> None:
        times = self._device.times(self._table)
        start, end = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
        done = 0
        for at, name, event in order_rows(self._table, rows):
            self._segment(times, rows.signature[done:at], start[done:at], end[done:at])
            start[at] = end[at] = self._clock.apply(name, event, self._frontier_ps)
            done = at + 1
        self._segment(times, rows.signature[done:], start[done:], end[done:])
        if self._keep:
            self._start.append(start)
            self._end.append(end)

    def _segment(self, times: _Times, signature: NDArray[np.int32], start: Int64, end: Int64) -> None:
        """Rows between two order rows. With e(i) = max(e(i-1), issue(i)) + d(i) and D the running sum
        of d: e(i) - D(i) = max over j <= i of (issue(j) - D(j-1)), a running maximum."""
        if not len(signature):
            return
        duration = times.duration_ps[signature]
        if float(duration.sum(dtype=np.float64)) + self._frontier_ps >= _MOST_PS:
            raise SizeError("all operators together would take more than 2^63 - 1 ps, 107 days of simulated time")
        total = np.cumsum(duration)
        issue = np.full(
            len(signature), max(self._clock.host_ps, self._clock.not_before_ps, self._frontier_ps), np.int64
        )
        if self._launch_ps:
            launches = np.cumsum(times.launched[signature])
            np.maximum(issue, self._clock.host_ps + launches * self._launch_ps, out=issue)
            self._clock.host_ps += int(launches[-1]) * self._launch_ps
        end[:] = total + np.maximum.accumulate(issue - (total - duration))
        start[:] = end - duration
        self._frontier_ps = int(end[-1])

    @property
    def frontier_ps(self) -> int:
        return self._frontier_ps

    @property
    def host_ps(self) -> int:
        return self._clock.host_ps

    def hold(self, *, host_ps: int = 0, device_ps: int = 0) -> None:
        self._clock.hold(host_ps, device_ps)

    def event_ps(self, event: int) -> int:
        return self._clock.event_ps(event)

    def forget_events(self, events: Iterable[int]) -> None:
        self._clock.forget(events)

    def finish(self, trace: Trace) -> Run:
        start = np.concatenate(self._start) if self._start else np.empty(0, np.int64)
        end = np.concatenate(self._end) if self._end else np.empty(0, np.int64)
        needs = self._device.times(trace.table).needs
        return self.run_of(
            self._device,
            trace,
            (start, end, end - start),
            self._frontier_ps,
            bounds_ps=self._bounds(trace, needs),
            bound=_limits(needs, fused=self._device.fused)[trace.rows.signature],
            bound_names=BOUND_NAMES,
        )

    def _bounds(self, trace: Trace, needs: list[_Needs]) -> dict[str, int]:
        """Sums over operators, and the whole-trace roofline that no schedule can beat. Of a fused device, `memory`
        is what its operators spend on memory, so that no part of it takes longer than the whole."""
        counts = np.bincount(trace.rows.signature, minlength=len(needs)).tolist()
        total = {
            name: sum(getattr(n, f"{name}_ps") * k for n, k in zip(needs, counts, strict=True))
            for name in ("unfused", "fused", "compute", "memory", "fused_memory", "link")
        }
        fused_memory = total.pop("fused_memory")
        if self._device.fused:
            total["memory"] = fused_memory
        return {**total, "whole_trace": max(total["compute"], total["memory"], total["link"])}


def _limits(needs: list[_Needs], *, fused: bool) -> NDArray[np.uint8]:
    """Per signature, which resource it takes longest on (index into BOUND_NAMES)."""
    out = np.zeros(len(needs), np.uint8)
    for i, n in enumerate(needs):
        by_resource = (n.compute_ps, n.fused_memory_ps if fused else n.memory_ps, n.link_ps)
        longest = max(by_resource)
        out[i] = 0 if longest == 0 else by_resource.index(longest) + 1
    return out
