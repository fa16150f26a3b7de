"""`simacc diff`: what changed between two traces."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Annotated, Any

import typer

from simdevice.analysis.diff import Diff, Totals, diff
from simdevice.cli._common import console, is_trace_file, load_or_capture, print_json, table
from simdevice.cli._options import JsonOption, Tracing, tracing_options
from simdevice.records import Trace
from simdevice.units import format_bytes, format_count

__all__ = ["command"]

Before = Annotated[str, typer.Argument(metavar="BEFORE", help="A trace file, or a model.")]
After = Annotated[str, typer.Argument(metavar="AFTER", help="A trace file, or a model.")]
Check = Annotated[bool, typer.Option("--check", help="Leave with exit code 1 if FLOPs or weight bytes differ.")]


@tracing_options(without=("batch", "dtype", "scopes", "strict"))
def command(
    before: Before,
    after: After,
    *,
    tracing: Tracing,
    check: Check = False,
    json: JsonOption = False,
) -> None:
    """Compare two traces: operators, FLOPs, bytes and where they first part. Options are for models among the two."""
    files = is_trace_file(before) and is_trace_file(after)

    def trace(side: str) -> Trace:
        if is_trace_file(side):
            return load_or_capture(side, tracing if files else Tracing())
        of_onnx = side.lower().endswith(".onnx")
        return load_or_capture(side, tracing if of_onnx else replace(tracing, dim=None, shapes="infer"))

    found = diff(trace(before), trace(after))
    if json:
        print_json(_plain(found))
    else:
        _show(found)
    if check and not found.same_arithmetic:
        raise typer.Exit(1)


def _plain(found: Diff) -> dict[str, Any]:
    data = asdict(found)
    data["signatures"] = [{"signature": str(s.name), "more_calls": n} for s, n in found.signatures]
    return {**data, "same_stream": found.same_stream, "same_arithmetic": found.same_arithmetic}


def _show(found: Diff) -> None:
    out = console()
    if found.same_stream:
        out.print("the same operators with the same shapes in the same order")
    else:
        arithmetic = "the same" if found.same_arithmetic else "different"
        out.print(f"{arithmetic} FLOPs and weight bytes; the streams part at operator {found.first_difference}")
    columns = ["operator", "calls", "FLOPs", "bytes", "weight bytes"]
    rows = [_row("total", found.before, found.after)]
    rows += [_row(delta.name, delta.before, delta.after) for delta in found.operators]
    out.print(table("Before and after", columns, rows))
    if found.versions:
        out.print(table("Versions", ["library", "before", "after"], [list(v) for v in found.versions]))


def _row(name: str, before: Totals, after: Totals) -> list[str]:
    def flops(side: Totals) -> str:
        return ">= " * bool(side.unknown) + format_count(side.flops)

    return [
        name,
        _change(f"{before.calls:,}", f"{after.calls:,}"),
        _change(flops(before), flops(after)),
        _change(format_bytes(before.bytes), format_bytes(after.bytes)),
        _change(format_bytes(before.weight_bytes), format_bytes(after.weight_bytes)),
    ]


def _change(before: str, after: str) -> str:
    return before if before == after else f"{before} -> {after}"
