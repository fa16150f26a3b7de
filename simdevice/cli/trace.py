"""`simacc trace`: a model's operators and what they need, on screen or in a file."""

from __future__ import annotations

from simdevice.cli._common import capture, check_output, print_page, print_saved, progress
from simdevice.cli._options import JsonOption, ModelArgument, OutputOption, Tracing, tracing_options
from simdevice.report.page import Fact
from simdevice.report.traces import trace_page

__all__ = ["command"]


@tracing_options()
def command(
    model: ModelArgument,
    *,
    tracing: Tracing,
    output: OutputOption = None,
    json: JsonOption = False,
) -> None:
    """Trace a model without its weights: operators, FLOPs, bytes and memory."""
    check_output(output)
    trace = capture(model, tracing)
    if output is not None:
        with progress(f"writing {output}"):
            trace.save(output)
    saved = Fact("saved", value=None if output is None else str(output))
    print_page(trace_page(trace).with_facts(saved), as_json=json)
    if output is not None and not json:
        print_saved(output)
