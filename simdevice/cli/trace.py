"""`simacc trace`: a model's operators and what they need, on screen or in a file."""

from __future__ import annotations

from simdevice.cli._common import capture, check_output, console, print_json, print_saved, progress
from simdevice.cli._options import JsonOption, ModelArgument, OutputOption, Tracing, tracing_options
from simdevice.cli._traces import describe, show

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
    found = capture(model, tracing)
    if output is not None:
        with progress(f"writing {output}"):
            found.save(output)
    if json:
        print_json({**describe(found), "saved": None if output is None else str(output)})
        return
    show(found, console())
    if output is not None:
        print_saved(output)
