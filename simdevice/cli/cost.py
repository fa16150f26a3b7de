"""`simacc cost`: how long a trace takes on a device, operator by operator."""

from __future__ import annotations

from typing import Annotated

import typer

from simdevice.cli._common import load_or_capture, print_page, progress
from simdevice.cli._options import (
    DeviceOption,
    JsonOption,
    SetOption,
    TargetArgument,
    Tracing,
    overrides,
    tracing_options,
)

__all__ = ["command"]

Fused = Annotated[bool, typer.Option("--fused", help="Ideal fusion: only matmul, attention and gather move data.")]
Depth = Annotated[int, typer.Option("--depth", min=1, help="How many parts of a module path make a row.")]
Top = Annotated[int, typer.Option("--top", min=1, help="How many operators to list.")]


@tracing_options()
def command(
    target: TargetArgument,
    device: DeviceOption = "h100",
    set_: SetOption = None,
    fused: Fused = False,
    *,
    tracing: Tracing,
    depth: Depth = 2,
    top: Top = 10,
    json: JsonOption = False,
) -> None:
    """Cost a model or a trace file on a device: time by category, module and operator."""
    from simdevice import devices, report

    machine = devices.get(device, fused=fused, **overrides(set_))
    trace = load_or_capture(target, tracing)
    with progress(f"running on {machine.name}"):
        run = machine.run(trace)
    print_page(report.run_page(run, depth=depth, top=top), as_json=json)
