"""One page about a Run: its totals, then its tables, as Markdown, JSON or on a terminal."""

from __future__ import annotations

import json as _json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from simdevice.analysis.liveness import liveness
from simdevice.records import CATEGORIES, FREE_CATEGORIES, Run
from simdevice.report import tables, utilisation
from simdevice.report.tables import to_dicts, to_markdown, to_rich
from simdevice.units import PS_PER_S, format_bytes, format_count, format_seconds

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["Summary", "json", "markdown", "print", "summarise", "to_dict"]

RESOURCES = ("compute", "memory", "link")


@dataclass(frozen=True, slots=True)
class Summary:
    """Totals. `free_operators` is how many of the operators are views or only order time.

    `peak_live_bytes` is what is alive at once in the trace, `memory_capacity_bytes` what the machine holds
    (None where a run doesn't say): a trace is timed whether or not it fits.
    `utilisation` says how much of the time each resource would have needed at full rate;
    `bounds_s` are the device's whole-trace bounds.
    """

    device: str
    workload: str
    operators: int
    free_operators: int
    time_s: float
    busy_s: float
    flops: int
    is_lower_bound: bool
    bytes_read: int
    bytes_written: int
    weight_bytes: int
    peak_live_bytes: int
    memory_capacity_bytes: int | None
    utilisation: dict[str, float]
    bounds_s: dict[str, float]

    @property
    def flops_per_s(self) -> float:
        """FLOPs over simulated time; zero where no time passed."""
        return self.flops / self.time_s if self.time_s else 0.0


def summarise(run: Run) -> Summary:
    """The totals of a run."""
    trace = run.trace
    free = [CATEGORIES.index(c) for c in FREE_CATEGORIES]
    makespan = max(run.makespan_ps, 1)
    return Summary(
        device=run.device,
        workload=trace.origin.workload,
        operators=len(trace),
        free_operators=int(np.isin(trace.per_op("category"), free).sum()),
        time_s=run.time_s,
        busy_s=int(run.busy_ps.sum()) / PS_PER_S,
        flops=trace.flops,
        is_lower_bound=trace.is_lower_bound,
        bytes_read=trace.bytes_read,
        bytes_written=trace.bytes_written,
        weight_bytes=trace.weight_bytes,
        peak_live_bytes=liveness(trace).peak_bytes,
        memory_capacity_bytes=getattr(run.spec, "memory_capacity_bytes", None),
        utilisation={r: run.bounds_ps[r] / makespan for r in RESOURCES if run.bounds_ps.get(r)},
        bounds_s={name: ps / PS_PER_S for name, ps in run.bounds_ps.items()},
    )


def _facts(run: Run, summary: Summary) -> list[tuple[str, str]]:
    """The totals as people read them."""
    least = ">= " * summary.is_lower_bound
    moved = summary.bytes_read + summary.bytes_written
    spot = utilisation.hot_spot(run)
    facts = [
        ("device", summary.device),
        ("workload", summary.workload),
        ("operators", f"{summary.operators:,} ({summary.free_operators:,} of them free: views, synchronisation)"),
        ("time", format_seconds(summary.time_s)),
        ("FLOPs", least + format_count(summary.flops)),
        ("rate", f"{least}{format_count(summary.flops_per_s)}/s"),
        ("bytes moved", f"{format_bytes(moved)} ({format_bytes(summary.weight_bytes)} of weights)"),
        ("memory", _held(summary)),
        ("utilisation", ", ".join(f"{name} {share:.1%}" for name, share in summary.utilisation.items())),
        ("bounds", ", ".join(f"{n.replace('_', ' ')} {format_seconds(s)}" for n, s in summary.bounds_s.items())),
        ("hot-spot", f"{spot.name} ({spot.share:.1%}): {spot.reason}" if spot else ""),
    ]
    return [(name, value) for name, value in facts if value]


def _held(summary: Summary) -> str:
    """What is alive at once, and whether the machine could hold it."""
    peak, capacity = summary.peak_live_bytes, summary.memory_capacity_bytes
    if not peak:
        return ""
    held = f"{format_bytes(peak)} alive at the peak"
    if capacity is None:
        return held
    beside = f"more than the {format_bytes(capacity)} of" if peak > capacity else f"of {format_bytes(capacity)} on"
    return f"{held}, {beside} {summary.device}"


def _sections(run: Run, depth: int, top: int) -> list[tuple[str, str, list[Any]]]:
    """Key, heading and rows of every table that has something to say."""
    phases = tables.by_phase(run)
    sections: list[tuple[str, str, list[Any]]] = [
        ("stalls", "Where the time went", utilisation.stalls(run)),
        ("components", "Parts of the machine", utilisation.components(run)),
        ("levels", "Buffer and FIFO", utilisation.levels(run)),
        ("by_phase", "By phase", phases if len(phases) > 1 else []),
        ("by_category", "By category", tables.by_category(run)),
        ("by_bound", "By what limits them", tables.by_bound(run)),
        ("by_module", "By module", tables.by_module(run, depth)),
        ("top_operators", "Top operators", tables.top_operators(run, top)),
        ("transfers", "Host link", tables.transfers(run)),
        ("unknown_operators", "Operators without a known cost", tables.unknown_operators(run)),
    ]
    return [section for section in sections if section[2]]


def markdown(run: Run, *, depth: int = 2, top: int = 10) -> str:
    """The page as GitHub Markdown."""
    summary = summarise(run)
    parts = [f"# {summary.workload or 'A program'} on {summary.device}\n"]
    facts = [f"- {name}: {value}" for name, value in _facts(run, summary) if name not in ("device", "workload")]
    parts.append("\n".join(facts) + "\n")
    parts += [f"## {heading}\n\n{to_markdown(rows)}" for _, heading, rows in _sections(run, depth, top)]
    return "\n".join(parts)


def to_dict(run: Run, *, depth: int = 2, top: int = 10) -> dict[str, Any]:
    """The page as plain data: numbers unrounded, in the unit their key names; absent tables are empty lists."""
    summary = summarise(run)
    totals = {name: getattr(summary, name) for name in Summary.__dataclass_fields__}
    keys = (
        *("stalls", "components", "levels"),
        *("by_phase", "by_category", "by_bound", "by_module", "top_operators", "transfers", "unknown_operators"),
    )
    found = {key: to_dicts(rows) for key, _, rows in _sections(run, depth, top)}
    spot = utilisation.hot_spot(run)
    totals["hot_spot"] = None if spot is None else asdict(spot)
    return {**totals, "flops_per_s": summary.flops_per_s, **{key: found.get(key, []) for key in keys}}


def json(run: Run, *, depth: int = 2, top: int = 10) -> str:
    """The page as JSON."""
    return _json.dumps(to_dict(run, depth=depth, top=top), indent=2)


def print(run: Run, *, depth: int = 2, top: int = 10, console: Console | None = None) -> None:
    """The page on a terminal."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = console or Console()
    totals = Table.grid(padding=(0, 2))
    for name, value in _facts(run, summarise(run)):
        totals.add_row(Text(name, style="bold"), Text(value))
    console.print(totals)
    for _, heading, rows in _sections(run, depth, top):
        console.print()
        console.print(to_rich(rows, heading))
