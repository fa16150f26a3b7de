"""`simacc diff`: what changed between two traces."""

from __future__ import annotations

from typing import Annotated

import typer

from simdevice.analysis.diff import diff
from simdevice.cli._common import load_or_capture, print_page
from simdevice.cli._options import JsonOption, Tracing, tracing_options
from simdevice.records import Trace
from simdevice.report.traces import diff_page
from simdevice.workloads.sources import is_trace_file, kind_of

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
        own = kind_of(side).options()
        others = {n for model in (before, after) if not is_trace_file(model) for n in kind_of(model).options()} - {*own}
        return load_or_capture(side, tracing.without(others))

    changes = diff(trace(before), trace(after))
    print_page(diff_page(changes), as_json=json)
    if check and not changes.same_arithmetic:
        raise typer.Exit(1)
