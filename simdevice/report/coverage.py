"""How much of a program is accounted for: by cost rules, and by the device where a host does the rest."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simdevice.devices.offload import BOUND_NAMES as OFFLOAD_BOUNDS
from simdevice.records import CATEGORIES, FREE_CATEGORIES, Run
from simdevice.report.tables import Unknown, to_dicts, to_markdown, unknown_operators
from simdevice.units import PS_PER_S, format_count

__all__ = ["CategoryPart", "Coverage", "Part", "Side", "coverage"]

RULES = ("a cost rule", "a cost rule that is customary or an estimate", "no known cost", "free: views, synchronisation")
SIDES = ("on the device", "on the host", "crossing the link")


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a program, and what share of the whole it is. Of operators, free ones are left out of the whole."""

    name: str
    operators: int
    of_operators: float
    flops: int
    of_flops: float
    moved_bytes: int
    of_bytes: float
    time_s: float
    of_time: float
    is_lower_bound: bool


@dataclass(frozen=True, slots=True)
class Side(Part):
    """The device, the host, or the link between them.

    Operators and bytes of the link are those of copies the program asked for, so that the sides add up to
    the program. Its time, crossings and crossed bytes are every crossing's; None on the other sides.
    """

    crossings: int | None
    crossed_bytes: int | None


@dataclass(frozen=True, slots=True)
class CategoryPart:
    """One category: where it runs ("device", "host", "link", "both") and its share.

    Crossings count for the operator that waits for them.
    """

    name: str
    where: str
    operators: int
    flops: int
    of_flops: float
    moved_bytes: int
    of_bytes: float
    time_s: float
    of_time: float
    is_lower_bound: bool


@dataclass(frozen=True)
class Coverage:
    """What `coverage` found. `sides` is empty for a device without a host.

    `flop_counter` is FlopCounterMode's total where the trace took it, `products` our FLOPs of the
    categories that it knows (matrix products, convolutions, attention).
    """

    device: str
    workload: str
    rules: tuple[Part, ...]
    sides: tuple[Side, ...]
    categories: tuple[CategoryPart, ...]
    unknown: tuple[Unknown, ...]
    flop_counter: int | None
    products: int

    def to_dict(self) -> dict[str, Any]:
        """Plain data, numbers unrounded."""
        named = {name: to_dicts(getattr(self, name)) for name in ("rules", "sides", "categories", "unknown")}
        return {**asdict(self), **named}

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=2)

    def to_markdown(self) -> str:
        """Tables under headings; a table that has nothing to say is left out."""
        sections: list[tuple[str, Sequence[Any]]] = [
            ("Cost rules", self.rules),
            ("Device and host", self.sides),
            ("By category", self.categories),
            ("Operators without a known cost", self.unknown),
        ]
        parts = [f"# Coverage of {self.workload or 'a program'} on {self.device}\n"]
        parts += [f"## {heading}\n\n{to_markdown(rows)}" for heading, rows in sections if rows]
        if self.flop_counter is not None:
            parts.append(f"## FlopCounterMode\n\n{self._beside()}\n")
        return "\n".join(parts)

    def _beside(self) -> str:
        assert self.flop_counter is not None
        more = self.products - self.flop_counter
        said = f"FlopCounterMode counts {format_count(self.flop_counter)}; products, convolutions and attention here"
        if not more:
            return f"{said} the same."
        return (
            f"{said} {format_count(self.products)} ({more:+,}): it leaves out biases, the softmax inside attention, "
            "and fused operators that it has no formula for."
        )


def coverage(run: Run) -> Coverage:
    """The coverage of a run, by operators, FLOPs, bytes and time."""
    trace = run.trace
    category = trace.per_op("category")
    free = np.isin(category, [CATEGORIES.index(c) for c in FREE_CATEGORIES])
    estimated = np.array([c.reason is not None for c in trace.table.costs], np.bool_)[trace.rows.signature]
    unknown = trace.per_op("flops") < 0
    groups = [~free & ~unknown & ~estimated, ~free & ~unknown & estimated, ~free & unknown, free]
    rules = [_part(run, name, chosen, free) for name, chosen in zip(RULES, groups, strict=True)]
    return Coverage(
        device=run.device,
        workload=trace.origin.workload,
        rules=tuple(part for part in rules if part.operators),
        sides=tuple(_sides(run, free)),
        categories=tuple(_categories(run, free)),
        unknown=tuple(unknown_operators(run)),
        flop_counter=trace.origin.flop_counter,
        products=trace.flops_in("matmul", "convolution", "attention"),
    )


def _totals(run: Run, chosen: NDArray[np.bool_]) -> tuple[int, int, int, int, bool]:
    """Operators, FLOPs, bytes, picoseconds, and whether the FLOPs are a lower bound."""
    flops = run.trace.per_op("flops")[chosen]
    moved = (run.trace.per_op("bytes_read") + run.trace.per_op("bytes_written"))[chosen]
    known = int(flops[flops > 0].sum())
    return int(chosen.sum()), known, int(moved.sum()), int(run.busy_ps[chosen].sum()), bool((flops < 0).any())


def _part(run: Run, name: str, chosen: NDArray[np.bool_], free: NDArray[np.bool_], ps: int | None = None) -> Part:
    operators, flops, moved, busy, lower = _totals(run, chosen)
    whole = _totals(run, np.ones(len(free), np.bool_))
    working = int((chosen & ~free).sum())
    busy = busy if ps is None else ps
    return Part(
        name=name,
        operators=operators,
        of_operators=_share(working, int((~free).sum())),
        flops=flops,
        of_flops=_share(flops, whole[1]),
        moved_bytes=moved,
        of_bytes=_share(moved, whole[2]),
        time_s=busy / PS_PER_S,
        of_time=_share(busy, whole[3]),
        is_lower_bound=lower,
    )


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _side(run: Run) -> NDArray[np.int64] | None:
    """Per row 0 for the device, 1 for the host, 2 for a copy over the link; None where there is no host."""
    if run.bound is None or run.bound_names != OFFLOAD_BOUNDS:
        return None
    of_bound = np.array([0, 0, 0, 1, 1])
    side: NDArray[np.int64] = of_bound[run.bound]
    side[run.trace.per_op("category") == CATEGORIES.index("transfer")] = 2
    return side


def _sides(run: Run, free: NDArray[np.bool_]) -> list[Side]:
    side = _side(run)
    if side is None:
        return []
    spent = [run.bounds_ps[name] for name in ("device", "host", "link")]
    crossed = (sum(c.count for c in run.crossings), sum(c.moved_bytes for c in run.crossings))
    rows = []
    for i, (name, ps) in enumerate(zip(SIDES, spent, strict=True)):
        part = _part(run, name, (side == i) & ~free, free, ps)
        crossings, crossed_bytes = crossed if name == SIDES[-1] else (None, None)
        rows.append(Side(**asdict(part), crossings=crossings, crossed_bytes=crossed_bytes))
    return rows


def _categories(run: Run, free: NDArray[np.bool_]) -> list[CategoryPart]:
    category, side = run.trace.per_op("category"), _side(run)
    rows = []
    for index in np.unique(category[~free]).tolist():
        chosen = category == index
        part = _part(run, CATEGORIES[index], chosen, free)
        where = "device"
        if side is not None:
            found = {("device", "host", "link")[i] for i in np.unique(side[chosen]).tolist()}
            where = found.pop() if len(found) == 1 else "both"
        fields = {name: getattr(part, name) for name in CategoryPart.__dataclass_fields__ if name != "where"}
        rows.append(CategoryPart(where=where, **fields))
    return sorted(rows, key=lambda row: (-row.time_s, row.name))
