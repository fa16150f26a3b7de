"""An accelerator for some operators, a host for the rest, and a link that tensors cross between them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from simdevice.devices.base import Device, Session
from simdevice.devices.queue import QueueClock
from simdevice.errors import SpecError, UnknownNameError
from simdevice.hardware import HostSpec, LinkSpec, OffloadSpec, load_host, load_link
from simdevice.records import CATEGORIES, SIDES, Cost, Crossings, OpTable, Rows, Run, Signature, Trace
from simdevice.units import PS_PER_S, ceil_div, seconds_to_ps

__all__ = ["BOUND_NAMES", "CLAIMABLE", "Offload"]

BOUND_NAMES = ("nothing", "device", "crossing to device", "host", "crossing to host")
"""What a row spent most of its time on: the side it runs on, or bringing its operands there."""

CLAIMABLE = tuple(c for c in CATEGORIES if c not in ("view", "transfer", "sync"))
"""Categories that an accelerator can claim; claiming them all leaves nothing to the host."""

_DEVICE, _HOST = 1, 2
_EITHER = 0
_REMEMBERED = 1 << 20
"""Storages whose place is kept. Beyond it the oldest are taken to be where everything starts: on the device."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """What a session needs to know of one signature. `side` is _EITHER for rows that do no work."""

    side: int
    kind: str
    host_ps: int
    copied_bytes: int
    nbytes: tuple[int, ...]
    weights: tuple[bool, ...]
    inputs: int


def _side(plan: _Plan) -> int:
    """The side of a row in records.SIDES: copies that the program asks for are the link's."""
    if plan.kind == "transfer":
        return SIDES.index("link")
    return SIDES.index("host" if plan.side == _HOST else "device")


class Offload(Device):
    """Runs what it claims on `device`, everything else on `host`, one after the other, nothing overlapped.

    1. What exists before the trace starts is on the device; parameters are on both sides.
    2. An operator's operands cross the link when they are not on its side: latency + bytes / bandwidth
       each, the whole storage. What crossed stays on both sides until somebody writes it.
    3. Operators between two that run on the host are one session of the device, opened idle.
    4. A view stays with what it looks at; where a trace gives it a storage of its own, that storage
       is where the other one was when the view was made.

    `claims` names categories ("matmul") or operators ("aten.mm"). An operator without a cost rule is
    claimed as category "unknown".

    Raises:
        UnknownNameError: a claim that is no category, or no such device, host or link.
    """

    goes_with_others = False  # the host runs operators of its own

    def __init__(
        self,
        device: str | Device,
        claims: Iterable[str],
        *,
        host: str | HostSpec = "host-cpu",
        link: str | LinkSpec | None = None,
        engine: Any = None,
    ) -> None:
        from simdevice.devices import get  # the package knows this module by name only

        self.device = get(device, engine=engine)
        self.host = load_host(host)
        own = getattr(self.device, "link", None)
        if link is None and own is None:
            raise SpecError(f"{self.device.name} names no link to a host: give link=")
        self.link = load_link(own if link is None else link)  # type: ignore[arg-type]  # one of them is there
        if isinstance(claims, str):
            claims = (claims,)
        self.claims = frozenset(claims)
        for claim in sorted(self.claims):
            if claim not in CLAIMABLE and "." not in claim:
                raise UnknownNameError("category to claim", claim, CLAIMABLE)
        self.name = f"{self.device.name} + {self.host.name} over {self.link.name}"
        self.memory_capacity_bytes = self.device.memory_capacity_bytes
        self.spec = OffloadSpec(
            name=self.name, device=self.device.spec, claims=tuple(sorted(self.claims)), host=self.host, link=self.link
        )

    @classmethod
    def of(cls, spec: OffloadSpec, *, engine: Any, fused: bool) -> Offload:
        """The device of a description; `engine` and `fused` go to the accelerator in it."""
        from simdevice.devices import get

        return cls(get(spec.device, engine=engine, fused=fused), spec.claims, host=spec.host, link=spec.link)

    def __repr__(self) -> str:
        return f"Offload({self.device!r}, {sorted(self.claims)}, host={self.host.name!r}, link={self.link.name!r})"

    def open(self, table: OpTable, *, keep: bool = True) -> OffloadSession:
        return OffloadSession(self, table, keep=keep)

    def claimed(self, signature: Signature, cost: Cost) -> bool:
        """Whether the device runs this operator."""
        return cost.category in self.claims or signature.name in self.claims

    def host_ps(self, cost: Cost) -> int:
        """What an operator takes on the host: its FLOPs or its bytes, whichever is longer, and its launch."""
        rates = ((cost.flops or 0, self.host.flops_per_s), (cost.bytes, self.host.dram_bytes_per_s))
        work = max(ceil_div(n * PS_PER_S * rate.denominator, rate.numerator) for n, rate in rates)
        return work + seconds_to_ps(Fraction(self.host.launch_overhead_s))

    def link_ps(self, nbytes: int) -> int:
        """What one crossing takes; nothing takes none."""
        if not nbytes:
            return 0
        rate = Fraction(self.link.bandwidth_bytes_per_s)
        moved = ceil_div(nbytes * PS_PER_S * rate.denominator, rate.numerator)
        return seconds_to_ps(Fraction(self.link.latency_s)) + moved

    def plans(self, table: OpTable) -> list[_Plan]:
        """Per signature of a table, made once and kept with it."""
        known: list[_Plan] | None = table.derived.get(self)
        if known is None:
            known = table.derived[self] = []
        for index in range(len(known), len(table)):
            known.append(self._plan(table.signatures[index], table.costs[index]))
        return known

    def _plan(self, signature: Signature, cost: Cost) -> _Plan:
        tensors = (*signature.inputs, *signature.outputs)
        works = cost.category not in ("view", "sync", "transfer")
        side = (_DEVICE if self.claimed(signature, cost) else _HOST) if works else _EITHER
        return _Plan(
            side=side,
            kind=cost.category if not works else "operator",
            host_ps=self.host_ps(cost) if side == _HOST else 0,
            copied_bytes=cost.bytes if cost.category == "transfer" else 0,
            nbytes=tuple(t.nbytes for t in tensors),
            weights=tuple(t.is_weight for t in tensors),
            inputs=len(signature.inputs),
        )


class _Places:
    """Where each storage is, and how large it is. Only what differs from rule 1 is kept."""

    def __init__(self) -> None:
        self._at: dict[int, int] = {}
        self._size: dict[int, int] = {}

    def at(self, storage: int, *, is_weight: bool) -> int:
        return self._at.get(storage, _DEVICE | _HOST if is_weight else _DEVICE)

    def read(self, storage: int, side: int, nbytes: int, *, is_weight: bool) -> int:
        """Bytes that cross so that `side` can read the storage; afterwards it is there too."""
        at = self.at(storage, is_weight=is_weight)
        if storage < 0 or at & side:
            return 0
        self._put(storage, at | side)
        return self._size.get(storage, nbytes)

    def write(self, storage: int, side: int, nbytes: int) -> None:
        if storage >= 0:
            self._put(storage, side)
            self._size[storage] = max(self._size.get(storage, 0), nbytes)

    def follow(self, storage: int, source: int, nbytes: int, *, is_weight: bool) -> None:
        """A view with a storage of its own."""
        if storage >= 0 and storage != source:
            self._put(storage, self.at(source, is_weight=is_weight))
            self._size[storage] = nbytes

    def _put(self, storage: int, at: int) -> None:
        self._at[storage] = at
        if len(self._at) > _REMEMBERED:
            for old in list(self._at)[: _REMEMBERED // 2]:
                del self._at[old]
                self._size.pop(old, None)


@dataclass(slots=True)
class _Inner:
    """An open session of the device: what it was given, and for each row its number in the whole trace,
    the clock its times are relative to, and how long its operands crossed."""

    session: Session
    rows: list[Rows]
    at: list[tuple[int, int, int]]


class OffloadSession(Session):
    """See Session. `_past_ps` is the clock without what the open device session has spent."""

    def __init__(self, device: Offload, table: OpTable, *, keep: bool) -> None:
        self._device, self._table, self._keep = device, table, keep
        self._places, self._clock = _Places(), QueueClock()
        self._past_ps = 0
        self._spent = {"device": 0, "host": 0}
        self._crossed = {_DEVICE: [0, 0, 0], _HOST: [0, 0, 0]}  # to each side: crossings, bytes, picoseconds
        self._inner: _Inner | None = None
        self._times: list[tuple[int, int, int, int]] = []  # start, end, busy, bound of each row

    def submit(self, rows: Rows) -> None:
        plans, offsets = self._device.plans(self._table), rows.offsets(self._table).tolist()
        tensors = rows.tensors.tolist()
        waiting: list[int] = []  # rows for the device, not given to it yet
        for i, index in enumerate(rows.signature.tolist()):
            plan, ids = plans[index], tensors[offsets[i] : offsets[i + 1]]
            if plan.kind == "view":
                self._look(plan, ids)
                self._beside(i, waiting)
            elif plan.kind == "sync":
                self._beside(i, waiting)
                self._give(rows, waiting)
                event = ids[0] if ids else -1
                self._clock.apply(self._table.signatures[index].name, event, self.frontier_ps)
            elif plan.side == _DEVICE:
                crossing = self._bring(plan, ids, _DEVICE)
                if self._inner is None:
                    self._inner = _Inner(self._device.device.open(self._table, keep=self._keep), [], [])
                self._row(i, waiting, crossing)
            else:
                self._give(rows, waiting)
                self._close()
                if plan.kind == "transfer":
                    self._transfer(plan, ids)
                else:
                    self._on_host(plan, ids)
        self._give(rows, waiting)

    def _look(self, plan: _Plan, ids: list[int]) -> None:
        if plan.inputs:
            for storage, nbytes in zip(ids[plan.inputs :], plan.nbytes[plan.inputs :], strict=True):
                self._places.follow(storage, ids[0], nbytes, is_weight=plan.weights[0])

    def _bring(self, plan: _Plan, ids: list[int], side: int) -> int:
        """Let operands cross to a side, and leave the results there; how long the crossings take."""
        places, taken = self._places, 0
        for storage, nbytes, is_weight in zip(ids[: plan.inputs], plan.nbytes, plan.weights, strict=False):
            crossing = places.read(storage, side, nbytes, is_weight=is_weight)
            if crossing:
                taken += self._cross(crossing, side)
        for storage, nbytes in zip(ids[plan.inputs :], plan.nbytes[plan.inputs :], strict=True):
            places.write(storage, side, nbytes)
        return taken

    def _cross(self, nbytes: int, side: int) -> int:
        """One crossing to a side; how long it takes."""
        taken = self._device.link_ps(nbytes)
        crossed = self._crossed[side]
        crossed[0] += 1
        crossed[1] += nbytes
        crossed[2] += taken
        self._past_ps += taken
        return taken

    def _beside(self, i: int, waiting: list[int]) -> None:
        """A row that takes no time: part of the open device session, else an instant."""
        if self._inner is not None:
            self._row(i, waiting, 0)
        elif self._keep:
            self._times.append((self._past_ps, self._past_ps, 0, 0))

    def _row(self, i: int, waiting: list[int], crossing: int) -> None:
        waiting.append(i)
        if self._keep and self._inner is not None:
            self._inner.at.append((len(self._times), self._past_ps, crossing))
            self._times.append((0, 0, 0, 0))

    def _on_host(self, plan: _Plan, ids: list[int]) -> None:
        began = self._past_ps
        crossing = self._bring(plan, ids, _HOST)
        self._past_ps += plan.host_ps
        self._spent["host"] += plan.host_ps
        self._took(began, BOUND_NAMES.index("crossing to host" if crossing > plan.host_ps else "host"))

    def _transfer(self, plan: _Plan, ids: list[int]) -> None:
        """A copy that the program asked for. What the host has already takes no time to copy there."""
        began = self._past_ps
        to_host = bool(plan.inputs)
        there = to_host and self._places.at(ids[0], is_weight=plan.weights[0]) & _HOST
        if plan.copied_bytes and not there:
            self._cross(plan.copied_bytes, _HOST if to_host else _DEVICE)
        for storage, nbytes in zip(ids[plan.inputs :], plan.nbytes[plan.inputs :], strict=True):
            self._places.write(storage, _DEVICE, nbytes)
        self._took(began, BOUND_NAMES.index("crossing to host" if to_host else "crossing to device"))

    def _took(self, began: int, bound: int) -> None:
        if self._keep:
            taken = self._past_ps - began
            self._times.append((began, self._past_ps, taken, bound if taken else 0))

    def _give(self, rows: Rows, waiting: list[int]) -> None:
        """Submit waiting rows to the device."""
        if not waiting or self._inner is None:
            return
        keep = np.zeros(len(rows), np.bool_)
        keep[waiting] = True
        chosen = Trace(self._table, rows).select(keep).rows
        self._inner.session.submit(chosen)
        if self._keep:
            self._inner.rows.append(chosen)
        waiting.clear()

    def _close(self) -> None:
        """The device is done before anything else happens."""
        inner, self._inner = self._inner, None
        if inner is None:
            return
        spent = inner.session.frontier_ps
        if self._keep:
            run = inner.session.finish(Trace(self._table, Rows.concatenate(inner.rows)))
            columns = zip(run.start_ps.tolist(), run.end_ps.tolist(), run.busy_ps.tolist(), strict=True)
            for (row, past, crossing), (start, end, busy) in zip(inner.at, columns, strict=True):
                longest = BOUND_NAMES.index("crossing to device" if crossing > busy else "device")
                bound = longest if busy or crossing else 0
                self._times[row] = (past + start - crossing, past + end, busy + crossing, bound)
        self._past_ps += spent
        self._spent["device"] += spent

    @property
    def frontier_ps(self) -> int:
        return self._past_ps + (self._inner.session.frontier_ps if self._inner is not None else 0)

    @property
    def crossings(self) -> tuple[Crossings, Crossings]:
        """What crossed so far, to the device and to the host; counted with keep=False too."""
        return Crossings("to device", *self._crossed[_DEVICE]), Crossings("to host", *self._crossed[_HOST])

    @property
    def host_ps(self) -> int:
        return self._clock.host_ps

    def hold(self, *, host_ps: int = 0, device_ps: int = 0) -> None:
        raise SpecError(f"{self._device.name} is simulated only alone: its host runs operators; use one device")

    def event_ps(self, event: int) -> int:
        return self._clock.event_ps(event)

    def forget_events(self, events: Iterable[int]) -> None:
        self._clock.forget(events)

    def finish(self, trace: Trace) -> Run:
        self._close()
        crossings = self.crossings
        spent = {**self._spent, "link": sum(c.time_ps for c in crossings)}
        start, end, busy, bound = np.array(self._times, np.int64).reshape(-1, 4).T
        sides = [_side(plan) for plan in self._device.plans(trace.table)]
        return self.run_of(
            self._device,
            trace,
            (start.copy(), end.copy(), busy.copy()),
            self._past_ps,
            bounds_ps={**spent, "whole_trace": max(spent.values())},
            bound=bound.astype(np.uint8),
            bound_names=BOUND_NAMES,
            side=np.array(sides, np.uint8)[trace.rows.signature],
            crossings=crossings,
        )
