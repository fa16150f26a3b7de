"""What a trace says without a device, and what changed between two: a page each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from simdevice.analysis.diff import Diff
from simdevice.analysis.liveness import liveness
from simdevice.records import Trace
from simdevice.report.page import BYTES, COUNT, FLOPS, TEXT, Column, Fact, Page, Section, Table
from simdevice.units import format_bytes, format_count, format_seconds

__all__ = ["by_category", "counted", "diff_page", "trace_page"]

BY_CATEGORY = (
    Column("category", "category", TEXT),
    Column("operators", "operators", COUNT),
    Column("flops", "FLOPs", FLOPS, at_least="flops_are_a_lower_bound"),
    Column("flops_are_a_lower_bound", hidden=True),
    Column("bytes", "bytes", BYTES),
    Column("weight_bytes", "of weights", BYTES),
)
UNKNOWN = (Column("", "name", TEXT), Column("", "reason", TEXT))


def trace_page(trace: Trace) -> Page:
    """Totals, origin, a row per category, and what no rule knows."""
    origin, unknown = trace.origin, trace.unknown()
    least = ">= " * trace.is_lower_bound
    weights = format_bytes(trace.weight_bytes)
    peak = liveness(trace).peak_bytes
    types = len(trace.totals("operator"))
    captured = f"{origin.frontend} on {origin.device} in {format_seconds(origin.capture_s)}"
    facts = (
        Fact("workload", "workload", origin.workload, origin.workload),
        Fact("frontend", "captured by", origin.frontend, captured),
        Fact("device", value=origin.device),
        Fact("path", "path", origin.path, origin.path),
        Fact("versions", value=dict(origin.versions)),
        Fact("capture_s", value=origin.capture_s),
        Fact("operators", "operators", len(trace), f"{len(trace):,} of {types} types"),
        Fact("operator_types", value=types),
        Fact("signatures", value=len(trace.table)),
        Fact("flops", "FLOPs", trace.flops, f"{least}{format_count(trace.flops)}"),
        Fact("flops_are_a_lower_bound", value=trace.is_lower_bound),
        Fact("matmul_flops", value=trace.matmul_flops),
        counted(trace),
        Fact("", "bytes moved", text=f"{format_bytes(trace.bytes)} ({weights} of weights)"),
        Fact("bytes_read", value=trace.bytes_read),
        Fact("bytes_written", value=trace.bytes_written),
        Fact("weight_bytes", value=trace.weight_bytes),
        Fact("peak_live_bytes", "memory", peak, f"{format_bytes(peak)} alive at the peak, weights included"),
        Fact("notes", value=list(origin.notes)),
        *(Fact("", "note", text=note) for note in origin.notes),
        Fact("unknown", value=unknown),
    )
    sections = (
        Section("categories", "By category", (Table.of("categories", BY_CATEGORY, by_category(trace)),)),
        Section("unknown", "Operators without a known cost", (Table("", UNKNOWN, tuple(unknown.items())),)),
    )
    return Page(f"Trace of {origin.workload or 'a program'}", facts, sections)


def counted(trace: Trace) -> Fact:
    """FlopCounterMode's total where it was taken, beside what is counted here of the operators it has formulas for."""
    total = trace.origin.flop_counter
    if total is None:
        return Fact("flop_counter", value=None)
    own = format_count(trace.flops_in("matmul", "convolution", "attention"))
    return Fact("flop_counter", "FlopCounterMode", total, f"{format_count(total)}; products and attention here: {own}")


def by_category(trace: Trace) -> list[dict[str, Any]]:
    """One row per category that occurs, most bytes first."""
    rows = [
        {
            "category": category,
            "operators": totals.calls,
            "flops": totals.flops,
            "flops_are_a_lower_bound": totals.is_lower_bound,
            "bytes": totals.bytes,
            "weight_bytes": totals.weight_bytes,
        }
        for category, totals in trace.totals("category").items()
    ]
    return sorted(rows, key=lambda row: (-row["bytes"], row["category"]))


SUMS = ("calls", "flops", "bytes_read", "bytes_written", "weight_bytes", "unknown")

CHANGES = (
    Column("name", "operator", TEXT),
    Column("before.calls", "calls", COUNT, becomes="after.calls"),
    Column("before.flops", "FLOPs", FLOPS, at_least="before.unknown", becomes="after.flops"),
    Column("before.bytes", "bytes", BYTES, becomes="after.bytes"),
    Column("before.weight_bytes", "weight bytes", BYTES, becomes="after.weight_bytes"),
    Column("after.calls", unit=COUNT, hidden=True),
    Column("after.flops", unit=FLOPS, at_least="after.unknown", hidden=True),
    Column("after.bytes", unit=BYTES, hidden=True),
    Column("after.weight_bytes", unit=BYTES, hidden=True),
    *(
        Column(f"{side}.{name}", hidden=True)
        for side in ("before", "after")
        for name in ("bytes_read", "bytes_written", "unknown")
    ),
)
SIGNATURES = (Column("signature", hidden=True), Column("more_calls", hidden=True))
VERSIONS = (Column("", "library", TEXT), Column("", "before", TEXT), Column("", "after", TEXT))


def diff_page(diff: Diff) -> Page:
    """Both totals, the operators that changed, where the streams part, and the libraries that differ."""
    if diff.same_stream:
        title = "the same operators with the same shapes in the same order"
    else:
        arithmetic = "the same" if diff.same_arithmetic else "different"
        title = f"{arithmetic} FLOPs and weight bytes; the streams part at operator {diff.first_difference}"
    sides = {"before": diff.before, "after": diff.after}
    sums = {f"{side}.{name}": getattr(total, name) for side, total in sides.items() for name in (*SUMS, "bytes")}
    operators = Table.of("operators", CHANGES, diff.operators)
    facts = (
        *(Fact(f"{side}.{name}", value=sums[f"{side}.{name}"]) for side in sides for name in SUMS),
        Fact("first_difference", value=diff.first_difference),
        Fact("versions", value=[list(version) for version in diff.versions]),
        Fact("same_stream", value=diff.same_stream),
        Fact("same_arithmetic", value=diff.same_arithmetic),
    )
    signatures = [{"signature": signature.name, "more_calls": n} for signature, n in diff.signatures]
    shown = Table("", CHANGES, (*Table.of("", CHANGES, [{"name": "total", **sums}]).rows, *operators.rows))
    sections = (
        Section("changes", "Before and after", (shown,)),
        Section("data", tables=(_hidden(operators), Table.of("signatures", SIGNATURES, signatures))),
        Section("versions", "Versions", (Table("", VERSIONS, diff.versions),)),
    )
    return Page(title, facts, sections)


def _hidden(table: Table) -> Table:
    """The table as data only."""
    return replace(table, columns=tuple(replace(column, hidden=True) for column in table.columns))
