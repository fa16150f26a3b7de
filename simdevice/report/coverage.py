"""How much of a program is accounted for: by cost rules, and by the device where a host does the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from simdevice.records import CATEGORIES, FREE_CATEGORIES, Cost, Groups, Run, Totals, Trace
from simdevice.report._sides import SIDES, sides
from simdevice.report.columns import BOUND, MOVED, NAME, TIME, WORK, table
from simdevice.report.page import BYTES, COUNT, SHARE, TEXT, Column, Fact, Page, Section, Table
from simdevice.report.renderers import json, render
from simdevice.report.tables import Unknown, unknown_operators
from simdevice.units import PS_PER_S, format_count

__all__ = ["CategoryPart", "Coverage", "Part", "Side", "coverage", "operator_types_section"]

FREE = "free: views, synchronisation"
RULES = ("a cost rule", "a cost rule that is customary or an estimate", "no known cost", FREE)
SIDE_NAMES = ("on the device", "on the host", "crossing the link")


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

    def page(self) -> Page:
        """The tables under headings; one that has nothing to say is not shown."""
        sections = (
            Section("rules", "Cost rules", (Table.of("rules", _columns(Part), self.rules),)),
            Section("sides", "Device and host", (Table.of("sides", _columns(Side), self.sides),)),
            Section("categories", "By category", (Table.of("categories", _columns(CategoryPart), self.categories),)),
            Section("unknown", "Operators without a known cost", (table("unknown", Unknown, self.unknown),)),
            Section("flop_counter", "FlopCounterMode", note=self._beside()),
        )
        facts = tuple(Fact(key, value=getattr(self, key)) for key in ("device", "workload", "flop_counter", "products"))
        return Page(f"Coverage of {self.workload or 'a program'} on {self.device}", facts, sections)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, numbers unrounded."""
        plain: dict[str, Any] = json.data(self.page())
        return plain

    def to_json(self) -> str:
        """The page as JSON."""
        return render(self.page(), "json")

    def to_markdown(self) -> str:
        """The page as GitHub Markdown."""
        return render(self.page(), "markdown")

    def _beside(self) -> str:
        if self.flop_counter is None:
            return ""
        more = self.products - self.flop_counter
        said = f"FlopCounterMode counts {format_count(self.flop_counter)}; products, convolutions and attention here"
        if not more:
            return f"{said} the same."
        return (
            f"{said} {format_count(self.products)} ({more:+,}): it leaves out biases, the softmax inside attention, "
            "and fused operators that it has no formula for."
        )


_COLUMNS = (
    NAME,
    Column("where", "where", TEXT),
    Column("operators", "operators", COUNT),
    Column("of_operators", "of operators", SHARE),
    WORK,
    Column("of_flops", "of FLOPs", SHARE),
    MOVED,
    Column("of_bytes", "of bytes", SHARE),
    TIME,
    Column("of_time", "of time", SHARE),
    Column("crossings", "crossings", COUNT),
    Column("crossed_bytes", "bytes crossed", BYTES),
    BOUND,
)


def _columns(kind: type) -> list[Column]:
    own = {field.name for field in fields(kind)}
    return [column for column in _COLUMNS if column.key in own]


_TYPES = (
    Column("domain", "domain", TEXT),
    Column("type", "operator type", TEXT),
    Column("nodes", "nodes", COUNT),
    Column("opset", "opset", COUNT),
    Column("since", "since", COUNT),
)


def operator_types_section(types: Sequence[Any], opset: int | None = None) -> Section:
    """A file's operator types, each with its domain, nodes, opset and `since`; given an opset, what a target refuses
    that stops there."""
    if opset is None:
        note = ""
    else:
        refused = [kind.type for kind in types if kind.is_refused(opset)]
        targets = f"A target that stops at opset {opset}"
        note = f"{targets} refuses {', '.join(refused)}." if refused else f"{targets} refuses none of them."
    rows = Table.of("operator_types", _TYPES, types)
    if opset is not None:
        marks = ["refused" if kind.is_refused(opset) else None for kind in types]
        columns = (*_TYPES, Column("target", "target", TEXT))
        rows = Table("operator_types", columns, tuple((*row, m) for row, m in zip(rows.rows, marks, strict=True)))
    return Section("operator_types", "Operator types", (rows,), note)


def coverage(run: Run) -> Coverage:
    """The coverage of a run, by operators, FLOPs, bytes and time."""
    trace = run.trace
    rules = _parts(run, _rules(trace)).values()
    return Coverage(
        device=run.device,
        workload=trace.origin.workload,
        rules=tuple(rules),
        sides=tuple(_sides(run)),
        categories=tuple(_categories(run)),
        unknown=tuple(unknown_operators(run)),
        flop_counter=trace.origin.flop_counter,
        products=trace.flops_in("matmul", "convolution", "attention"),
    )


def _rules(trace: Trace) -> Groups:
    """Each row by what is known of its cost."""

    def rule(cost: Cost) -> int:
        if cost.category in FREE_CATEGORIES:
            return 3
        if cost.flops is None:
            return 2
        return int(cost.reason is not None)

    of_signature = np.array([rule(cost) for cost in trace.table.costs], np.int64)
    return Groups(RULES, of_signature[trace.rows.signature])


def _parts(run: Run, groups: Groups, spent_ps: Mapping[str, int] | None = None) -> dict[str, Part]:
    """A part for every group with operators; with `spent_ps` for every one that has a time there."""
    trace, whole = run.trace, run.trace.total
    categories = trace.totals("category")
    working = whole.calls - sum(categories[name].calls for name in FREE_CATEGORIES if name in categories)
    is_free = np.isin(trace.per_op("category"), [CATEGORIES.index(name) for name in FREE_CATEGORIES])
    works = dict(zip(groups.keys, groups.sums(~is_free).tolist(), strict=True))
    busy = dict(zip(groups.keys, groups.sums(run.busy_ps).tolist(), strict=True))
    spent = busy if spent_ps is None else spent_ps
    all_ps = int(run.busy_ps.sum())
    totals = trace.totals(groups)
    return {
        name: Part(
            name=name,
            operators=sums.calls,
            of_operators=_share(works[name], working),
            flops=sums.flops,
            of_flops=_share(sums.flops, whole.flops),
            moved_bytes=sums.bytes,
            of_bytes=_share(sums.bytes, whole.bytes),
            time_s=spent[name] / PS_PER_S,
            of_time=_share(spent[name], all_ps),
            is_lower_bound=sums.is_lower_bound,
        )
        for name in (totals if spent_ps is None else spent_ps)
        for sums in [totals.get(name, Totals())]
    }


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _sides(run: Run) -> list[Side]:
    """The device, the host and the link; what is free is on none of them."""
    side = sides(run)
    if side is None:
        return []
    is_free = np.isin(run.trace.per_op("category"), [CATEGORIES.index(name) for name in FREE_CATEGORIES])
    groups = Groups((*SIDE_NAMES, FREE), np.where(is_free, len(SIDES), side))
    spent = dict(zip(SIDE_NAMES, (run.bounds_ps[name] for name in SIDES), strict=True))
    rows = []
    for name, part in _parts(run, groups, spent).items():
        crossed: tuple[int | None, int | None] = (None, None)
        if name == SIDE_NAMES[SIDES.index("link")]:
            crossed = sum(c.count for c in run.crossings), sum(c.moved_bytes for c in run.crossings)
        rows.append(Side(**asdict(part), crossings=crossed[0], crossed_bytes=crossed[1]))
    return rows


def _categories(run: Run) -> list[CategoryPart]:
    category, side = run.trace.per_op("category"), sides(run)
    rows = []
    for name, part in _parts(run, run.trace.groups("category")).items():
        if name in FREE_CATEGORIES:
            continue
        where = "device"
        if side is not None:
            places = {SIDES[i] for i in np.unique(side[category == CATEGORIES.index(name)]).tolist()}
            where = places.pop() if len(places) == 1 else "both"
        shared = {key: getattr(part, key) for key in CategoryPart.__dataclass_fields__ if key != "where"}
        rows.append(CategoryPart(where=where, **shared))
    return sorted(rows, key=lambda row: (-row.time_s, row.name))
