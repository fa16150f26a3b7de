"""What a Run says, as rows: where time, FLOPs and bytes went. No prose and no totals; `summary` has those.

Every function gives a list of one dataclass. `to_markdown`, `to_rich` and `to_dicts` render any such list:
a field's name says how it is shown (`_s` seconds, `_bytes` bytes, `flops` a count, `share` and `of_` per cent).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from simdevice.records import CATEGORIES, PHASES, Run, TensorSpec
from simdevice.units import PS_PER_S, format_bytes, format_count, format_seconds

if TYPE_CHECKING:
    from rich.table import Table

__all__ = [
    "Hot",
    "Share",
    "Transfer",
    "Unknown",
    "by_bound",
    "by_category",
    "by_module",
    "by_operator",
    "by_phase",
    "to_dicts",
    "to_markdown",
    "to_rich",
    "top_operators",
    "transfers",
    "unknown_operators",
]

Int64 = NDArray[np.int64]

TOP_LEVEL = "(top level)"


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
    """What crossed the host link in one direction: the trace's copies, and where a host runs a part of it,
    every crossing."""

    direction: str
    copies: int
    moved_bytes: int
    time_s: float


Row = Share | Hot | Unknown | Transfer


def by_category(run: Run) -> list[Share]:
    """Matrix products, attention, elementwise, ...; most time first."""
    return _split(run, run.trace.per_op("category"), CATEGORIES)


def by_phase(run: Run) -> list[Share]:
    """Forward, backward, optimizer, in that order."""
    order = {name: i for i, name in enumerate(PHASES)}
    return sorted(_split(run, run.trace.rows.phase.astype(np.int64), PHASES), key=lambda row: order[row.name])


def by_module(run: Run, depth: int = 2) -> list[Share]:
    """By the first `depth` parts of the module path, in order of first use."""
    paths = [".".join(path.split(".")[:depth]) or TOP_LEVEL for path in run.trace.scopes]
    names = list(dict.fromkeys(paths))
    places = np.array([names.index(path) for path in paths], np.int64)
    index = places[run.trace.rows.scope]
    seen = {names[i]: n for n, i in enumerate(dict.fromkeys(index.tolist()))}
    return sorted(_split(run, index, names), key=lambda row: seen[row.name])


def by_operator(run: Run) -> list[Share]:
    """By operator name, whatever the shapes; most time first."""
    names = list(dict.fromkeys(s.name for s in run.trace.table.signatures))
    place = {name: i for i, name in enumerate(names)}
    places = np.array([place[s.name] for s in run.trace.table.signatures], np.int64)
    return _split(run, places[run.trace.rows.signature], names)


def by_bound(run: Run) -> list[Share]:
    """By what limited each operator that took time; empty where the device doesn't say."""
    if run.bound is None:
        return []
    return [row for row in _split(run, run.bound.astype(np.int64), run.bound_names) if row.time_s]


def top_operators(run: Run, count: int = 10) -> list[Hot]:
    """The operators, told apart by their shapes, that took most time."""
    trace, table = run.trace, run.trace.table
    calls = np.bincount(trace.rows.signature, minlength=len(table))
    busy = _sum(trace.rows.signature, run.busy_ps, len(table))
    total = max(int(run.busy_ps.sum()), 1)
    bound = np.zeros(len(table), np.int64)
    if run.bound is not None:
        bound[trace.rows.signature] = run.bound  # equal calls are limited by the same thing
    rows = []
    for i in np.argsort(-busy, kind="stable")[:count].tolist():
        if not busy[i]:
            break
        signature, cost, n = table.signatures[i], table.costs[i], int(calls[i])
        rows.append(
            Hot(
                name=signature.name,
                shapes=_shapes(signature.inputs or signature.outputs),
                calls=n,
                time_s=int(busy[i]) / PS_PER_S,
                share=int(busy[i]) / total,
                flops=(cost.flops or 0) * n,
                moved_bytes=cost.bytes * n,
                bound=run.bound_names[bound[i]] if run.bound is not None else "",
                is_lower_bound=cost.flops is None,
            )
        )
    return rows


def unknown_operators(run: Run) -> list[Unknown]:
    """Every operator whose FLOPs are unknown, each with its reason; most time first."""
    trace, table = run.trace, run.trace.table
    calls = np.bincount(trace.rows.signature, minlength=len(table))
    busy = _sum(trace.rows.signature, run.busy_ps, len(table))
    found: dict[tuple[str, str], list[int]] = {}
    for i, (signature, cost) in enumerate(zip(table.signatures, table.costs, strict=True)):
        if cost.flops is None and calls[i]:
            totals = found.setdefault((signature.name, cost.reason or "no cost rule"), [0, 0, 0])
            for k, value in enumerate((int(calls[i]), int(busy[i]), cost.bytes * int(calls[i]))):
                totals[k] += value
    rows = [Unknown(name, n, ps / PS_PER_S, moved, why) for (name, why), (n, ps, moved) in found.items()]
    return sorted(rows, key=lambda row: (-row.time_s, row.name))


def transfers(run: Run) -> list[Transfer]:
    """Copies over the host link, by direction; a direction without a copy has no row."""
    if run.crossings:
        crossed = [c for c in run.crossings if c.count]
        return [Transfer(c.direction, c.count, c.moved_bytes, c.time_ps / PS_PER_S) for c in crossed]
    trace = run.trace
    crossing = trace.per_op("category") == CATEGORIES.index("transfer")
    rows = []
    for direction, side in (("to device", "bytes_written"), ("to host", "bytes_read")):
        moved = trace.per_op(side)
        chosen = crossing & (moved > 0)
        if chosen.any():
            time_s = int(run.busy_ps[chosen].sum()) / PS_PER_S
            rows.append(Transfer(direction, int(chosen.sum()), int(moved[chosen].sum()), time_s))
    return rows


def _sum(index: NDArray[Any], values: Int64, groups: int) -> Int64:
    """Exact sums of `values` by group (bincount would go through floats)."""
    out = np.zeros(groups, np.int64)
    np.add.at(out, index, values)
    return out


def _split(run: Run, index: Int64, names: Sequence[str]) -> list[Share]:
    trace, groups = run.trace, len(names)
    flops = trace.per_op("flops")
    moved = trace.per_op("bytes_read") + trace.per_op("bytes_written")
    operators = np.bincount(index, minlength=groups)
    busy = _sum(index, run.busy_ps, groups)
    known = _sum(index, np.maximum(flops, 0), groups)
    total_moved = _sum(index, moved, groups)
    lower = np.bincount(index[flops < 0], minlength=groups)
    total = max(int(busy.sum()), 1)
    rows = [
        Share(
            name=names[i],
            operators=int(operators[i]),
            time_s=int(busy[i]) / PS_PER_S,
            share=int(busy[i]) / total,
            flops=int(known[i]),
            moved_bytes=int(total_moved[i]),
            is_lower_bound=bool(lower[i]),
        )
        for i in np.flatnonzero(operators).tolist()
    ]
    return sorted(rows, key=lambda row: (-row.time_s, row.name))


def _shapes(tensors: Sequence[TensorSpec], most: int = 3) -> str:
    """`8x3x32x32, 16x3x3x3, 16 float32`: a type is said where it changes, and after `most` tensors only how many."""
    parts = []
    for i, tensor in enumerate(tensors[:most]):
        last = i + 1 == min(len(tensors), most)
        changes = last or tensors[i + 1].dtype != tensor.dtype
        parts.append(("x".join(map(str, tensor.shape)) or "scalar") + f" {tensor.dtype}" * changes)
    more = f", +{len(tensors) - most}" if len(tensors) > most else ""
    return ", ".join(parts) + more


# Rendering


def _shown(row: Row) -> list[str]:
    return [f.name for f in fields(row) if f.name != "is_lower_bound"]


_TITLES = {
    "crossed_bytes": "bytes crossed",
    "flops": "FLOPs",
    "moved_bytes": "bytes",
    "of_bytes": "of bytes",
    "of_flops": "of FLOPs",
    "of_operators": "of operators",
    "of_time": "of time",
    "time_s": "time",
}


def _title(field: str) -> str:
    return _TITLES.get(field, field.removesuffix("_share"))


def _four_digits(value: float) -> float:
    return float(f"{value:.4g}")


def cell(row: Row, field: str) -> str:
    """One value as people read it, to four digits; its field's name says in which unit."""
    value = getattr(row, field)
    if value is None:
        return "-"
    if field.endswith("share") or field.startswith("of_"):
        return f"{value:.1%}"
    if field == "flops":
        return ">= " * getattr(row, "is_lower_bound", False) + format_count(_four_digits(value), "").strip()
    if field.endswith("_s"):
        return format_seconds(_four_digits(value))
    if field.endswith("bytes"):
        return format_bytes(_four_digits(value))
    if isinstance(value, float):
        return f"{_four_digits(value):,}".removesuffix(".0")
    return f"{value:,}" if isinstance(value, int) else " ".join(str(value).split())


def to_dicts(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Plain data, for JSON: numbers unrounded, in the unit their key names."""
    return [asdict(row) for row in rows]


def to_markdown(rows: Sequence[Row]) -> str:
    """A GitHub table; text to the left, numbers to the right. No rows, no text."""
    if not rows:
        return ""
    shown = _shown(rows[0])
    lines = [[_title(f) for f in shown], ["---:" if _is_number(rows[0], f) else "---" for f in shown]]
    lines += [[cell(row, f).replace("|", r"\|") for f in shown] for row in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def to_rich(rows: Sequence[Row], title: str = "") -> Table:
    """The same for a terminal."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=title or None,
        title_justify="left",
        title_style="bold",
        header_style="bold",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    if rows:
        shown = _shown(rows[0])
        for field in shown:
            number = _is_number(rows[0], field)
            # On a narrow terminal text wraps and numbers stay whole.
            table.add_column(_title(field), justify="right" if number else "left", no_wrap=number, overflow="fold")
        for row in rows:
            table.add_row(*(Text(cell(row, field)) for field in shown))  # Text: brackets in a name are no markup
    return table


def _is_number(row: Row, field: str) -> bool:
    return not isinstance(getattr(row, field), str)
