"""A trace's totals as data and as tables: what `trace` and `diff` print."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from rich.console import Console
from rich.text import Text

from simdevice.analysis.liveness import liveness
from simdevice.cli._common import table
from simdevice.records import CATEGORIES, Trace
from simdevice.units import format_bytes, format_count, format_seconds

__all__ = ["by_category", "describe", "show"]


def describe(trace: Trace) -> dict[str, Any]:
    """Totals, origin, a row per category, and what no rule knows."""
    origin, live = trace.origin, liveness(trace)
    return {
        "workload": origin.workload,
        "frontend": origin.frontend,
        "device": origin.device,
        "path": origin.path,
        "versions": dict(origin.versions),
        "notes": list(origin.notes),
        "capture_s": origin.capture_s,
        "operators": len(trace),
        "operator_types": len({trace.table.signatures[i].name for i in np.unique(trace.rows.signature)}),
        "signatures": len(trace.table),
        "flops": trace.flops,
        "flops_are_a_lower_bound": trace.is_lower_bound,
        "matmul_flops": trace.matmul_flops,
        "bytes_read": trace.bytes_read,
        "bytes_written": trace.bytes_written,
        "weight_bytes": trace.weight_bytes,
        "peak_live_bytes": live.peak_bytes,
        "categories": by_category(trace),
        "unknown": trace.unknown(),
    }


def by_category(trace: Trace) -> list[dict[str, Any]]:
    """One row per category that occurs, most bytes first."""
    which = trace.per_op("category")
    rows = []
    for index in np.unique(which):
        chosen = which == index
        flops = trace.per_op("flops")[chosen]
        moved = trace.per_op("bytes_read")[chosen] + trace.per_op("bytes_written")[chosen]
        rows.append(
            {
                "category": CATEGORIES[int(index)],
                "operators": int(chosen.sum()),
                "flops": int(flops[flops > 0].sum()),
                "flops_are_a_lower_bound": bool((flops < 0).any()),
                "bytes": int(moved.sum()),
                "weight_bytes": int(trace.per_op("weight_bytes")[chosen].sum()),
            }
        )
    return sorted(rows, key=lambda row: (-row["bytes"], row["category"]))


def show(trace: Trace, out: Console) -> None:
    """The same on a terminal."""
    facts = describe(trace)
    least = ">= " * facts["flops_are_a_lower_bound"]
    moved = facts["bytes_read"] + facts["bytes_written"]
    _lines(
        out,
        [
            ("workload", facts["workload"]),
            ("captured by", f"{facts['frontend']} on {facts['device']} in {format_seconds(facts['capture_s'])}"),
            ("path", facts["path"]),
            ("operators", f"{facts['operators']:,} of {facts['operator_types']} types"),
            ("FLOPs", f"{least}{format_count(facts['flops'])}"),
            ("bytes moved", f"{format_bytes(moved)} ({format_bytes(facts['weight_bytes'])} of weights)"),
            ("memory", f"{format_bytes(facts['peak_live_bytes'])} alive at the peak, weights included"),
            *(("note", note) for note in facts["notes"]),
        ],
    )
    columns = ["category", "operators", "FLOPs", "bytes", "of weights"]
    rows = [
        [
            row["category"],
            f"{row['operators']:,}",
            ">= " * row["flops_are_a_lower_bound"] + format_count(row["flops"]),
            format_bytes(row["bytes"]),
            format_bytes(row["weight_bytes"]),
        ]
        for row in facts["categories"]
    ]
    out.print(table("By category", columns, rows))
    if facts["unknown"]:
        out.print(table("Operators without a known cost", ["name", "reason"], [[*i] for i in facts["unknown"].items()]))


def _lines(out: Console, facts: Iterable[tuple[str, str]]) -> None:
    for name, value in facts:
        if value:
            out.print(Text.assemble((f"{name:12}", "bold"), value))
