"""One page about a Run: its totals, then its tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from simdevice.analysis.liveness import liveness
from simdevice.analysis.occupancy import Level, levels
from simdevice.analysis.utilisation import Component, Stall, components, hot_spot, stalls
from simdevice.records import FREE_CATEGORIES, Run
from simdevice.report import tables
from simdevice.report.columns import table
from simdevice.report.page import Fact, Page, Section
from simdevice.report.renderers import json as _json
from simdevice.report.renderers import render, show
from simdevice.report.traces import counted
from simdevice.units import PS_PER_S, format_bytes, format_count, format_seconds

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["Summary", "json", "markdown", "print", "run_page", "summarise", "to_dict"]

RESOURCES = ("compute", "memory", "link")


@dataclass(frozen=True, slots=True)
class Summary:
    """Totals. `free_operators` is how many of the operators are views or only order time.

    `peak_live_bytes` is what is alive at once in the trace (of several devices, on the fullest),
    `memory_capacity_bytes` what the machine holds (None where a run doesn't say): a trace is timed whether or not it
    fits.
    `excess_bytes` is what tiles moved beyond `bytes_read` and `bytes_written`, by cause.
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
    devices: int
    peak_live_bytes: int
    memory_capacity_bytes: int | None
    excess_bytes: dict[str, int]
    utilisation: dict[str, float]
    bounds_s: dict[str, float]

    @property
    def flops_per_s(self) -> float:
        """FLOPs over simulated time; zero where no time passed."""
        return self.flops / self.time_s if self.time_s else 0.0


def summarise(run: Run) -> Summary:
    """The totals of a run."""
    trace = run.trace
    total, categories = trace.total, trace.totals("category")
    makespan = max(run.makespan_ps, 1)
    return Summary(
        device=run.device,
        workload=trace.origin.workload,
        operators=len(trace),
        free_operators=sum(categories[c].calls for c in FREE_CATEGORIES if c in categories),
        time_s=run.time_s,
        busy_s=int(run.busy_ps.sum()) / PS_PER_S,
        flops=total.flops,
        is_lower_bound=total.is_lower_bound,
        bytes_read=total.bytes_read,
        bytes_written=total.bytes_written,
        weight_bytes=total.weight_bytes,
        devices=len(run.per_device) or 1,
        peak_live_bytes=max(liveness(own.trace).peak_bytes for own in run.per_device.values() or (run,)),
        memory_capacity_bytes=run.spec.memory_capacity_bytes,
        excess_bytes=dict(sorted(run.excess_bytes.items(), key=lambda item: -item[1])),
        utilisation={r: run.bounds_ps[r] / makespan for r in RESOURCES if run.bounds_ps.get(r)},
        bounds_s={name: ps / PS_PER_S for name, ps in run.bounds_ps.items()},
    )


def run_page(run: Run, *, depth: int = 2, top: int = 10) -> Page:
    """The page of a run: modules to a depth, and as many operators as `top`."""
    summary = summarise(run)
    several = f" ({summary.devices} devices)" if summary.devices > 1 else ""
    title = f"{summary.workload or 'A program'} on {summary.device}{several}"
    return Page(title, _facts(run, summary), _sections(run, depth, top))


def _facts(run: Run, summary: Summary) -> tuple[Fact, ...]:
    """The totals; one text may say several of them, as people read them."""
    least = ">= " * summary.is_lower_bound
    moved = summary.bytes_read + summary.bytes_written
    spot = hot_spot(_last(run))
    free = f"{summary.free_operators:,} of them free: views, synchronisation"
    bounds = ", ".join(f"{n.replace('_', ' ')} {format_seconds(s)}" for n, s in summary.bounds_s.items())
    shown = (
        ("operators", "operators", f"{summary.operators:,} ({free})"),
        ("time_s", "time", format_seconds(summary.time_s)),
        ("flops", "FLOPs", least + format_count(summary.flops)),
        ("flops_per_s", "rate", f"{least}{format_count(summary.flops_per_s)}/s"),
        ("", "bytes moved", f"{format_bytes(moved)} ({format_bytes(summary.weight_bytes)} of weights)"),
        ("excess_bytes", "moved besides", ", ".join(f"{n} {_signed(b)}" for n, b in summary.excess_bytes.items())),
        ("peak_live_bytes", "memory", _held(summary)),
        ("utilisation", "utilisation", ", ".join(f"{n} {share:.1%}" for n, share in summary.utilisation.items())),
        ("bounds_s", "bounds", bounds),
        ("hot_spot", "hot-spot", f"{spot.name} ({spot.share:.1%}): {spot.reason}" if spot else ""),
    )
    values = {name: getattr(summary, name) for name in Summary.__dataclass_fields__}
    values |= {"flops_per_s": summary.flops_per_s, "hot_spot": None if spot is None else asdict(spot)}
    facts = [Fact(key, label, values.pop(key, None), text) for key, label, text in shown]
    path = run.trace.origin.path
    notes = (Fact("path", "path", path, path), counted(run.trace))
    return (*(Fact(key, value=value) for key, value in values.items()), *facts, *notes)


def _last(run: Run) -> Run:
    """The run, or of several devices that which ends last: it decides the time."""
    return max(run.per_device.values(), key=lambda own: own.makespan_ps, default=run)


def _signed(count: int) -> str:
    """Bytes that a machine leaves out are less than none."""
    return f"-{format_bytes(-count)}" if count < 0 else format_bytes(count)


def _held(summary: Summary) -> str:
    """What is alive at once, and whether the machine could hold it."""
    peak, capacity = summary.peak_live_bytes, summary.memory_capacity_bytes
    if not peak:
        return ""
    held = f"{format_bytes(peak)} alive at the peak{' of the fullest device' if summary.devices > 1 else ''}"
    if capacity is None:
        return held
    beside = f"more than the {format_bytes(capacity)} of" if peak > capacity else f"of {format_bytes(capacity)} on"
    return f"{held}, {beside} {summary.device}"


def _sections(run: Run, depth: int, top: int) -> tuple[Section, ...]:
    """Every table; one without rows is not shown."""
    phases = tables.by_phase(run)
    sections: list[tuple[str, str, type, Sequence[Any]]] = [
        ("by_device", "By device", tables.PerDevice, tables.by_device(run)),
        ("stalls", "Where the time went", Stall, _of_each(run, stalls)),
        ("components", "Parts of the machine", Component, _of_each(run, components)),
        ("levels", "Buffer and FIFO", Level, _of_each(run, levels)),
        ("by_phase", "By phase", tables.Share, phases if len(phases) > 1 else []),
        ("by_category", "By category", tables.Share, tables.by_category(run)),
        ("by_bound", "By what limits them", tables.Share, tables.by_bound(run)),
        ("by_module", "By module", tables.Share, tables.by_module(run, depth)),
        ("top_operators", "Top operators", tables.Hot, tables.top_operators(run, top)),
        ("transfers", "Links" if run.per_device else "Host link", tables.Transfer, tables.transfers(run)),
        ("unknown_operators", "Operators without a known cost", tables.Unknown, tables.unknown_operators(run)),
    ]
    return tuple(Section(key, heading, (table(key, kind, rows),)) for key, heading, kind, rows in sections)


def _of_each(run: Run, rows: Callable[[Run], Sequence[Any]]) -> Sequence[Any]:
    """The rows of a run; with several devices those of each, named after it."""
    if not run.per_device:
        return rows(run)
    return [replace(row, name=f"simacc:{d} {row.name}") for d, own in run.per_device.items() for row in rows(own)]


def markdown(run: Run, *, depth: int = 2, top: int = 10) -> str:
    """The page as GitHub Markdown."""
    return render(run_page(run, depth=depth, top=top), "markdown")


def to_dict(run: Run, *, depth: int = 2, top: int = 10) -> dict[str, Any]:
    """The page as plain data: numbers unrounded, in the unit their key names; absent tables are empty lists."""
    plain: dict[str, Any] = _json.data(run_page(run, depth=depth, top=top))
    return plain


def json(run: Run, *, depth: int = 2, top: int = 10) -> str:
    """The page as JSON."""
    return render(run_page(run, depth=depth, top=top), "json")


def print(run: Run, *, depth: int = 2, top: int = 10, console: Console | None = None) -> None:
    """The page on a terminal; plain text where the console is none."""
    show(run_page(run, depth=depth, top=top), console)
