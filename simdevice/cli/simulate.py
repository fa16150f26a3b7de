"""`simacc simulate`: a model or a trace on a tile accelerator, with its stalls, its picture and its timeline files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from simdevice.cli._common import check_output, load_or_capture, print_page, print_saved, progress
from simdevice.cli._options import (
    DeviceOption,
    EngineOption,
    JsonOption,
    SetOption,
    TargetArgument,
    Tracing,
    overrides,
    tracing_options,
)
from simdevice.errors import SpecError

__all__ = ["command"]

Timeline = Annotated[
    Path | None, typer.Option("--timeline", metavar="FILE.png", help="Draw engines, buffer and FIFO over time.")
]
Perfetto = Annotated[
    Path | None, typer.Option("--perfetto", metavar="FILE", help="Write a trace for ui.perfetto.dev (protobuf).")
]
Chrome = Annotated[Path | None, typer.Option("--chrome", metavar="FILE", help="Write the same as Chrome's trace JSON.")]
MaxSlices = Annotated[
    int, typer.Option("--max-slices", min=1, help="The most slices in such a file; it says what it leaves out.")
]
Depth = Annotated[int, typer.Option("--depth", min=1, help="How many parts of a module path make a row.")]
Top = Annotated[int, typer.Option("--top", min=1, help="How many operators to list.")]


@tracing_options()
def command(
    target: TargetArgument,
    device: DeviceOption = "edge-npu",
    engine: EngineOption = None,
    set_: SetOption = None,
    timeline: Timeline = None,
    perfetto: Perfetto = None,
    chrome: Chrome = None,
    max_slices: MaxSlices = 1_000_000,
    *,
    tracing: Tracing,
    depth: Depth = 2,
    top: Top = 10,
    json: JsonOption = False,
) -> None:
    """Simulate a model or a trace file tile by tile: where the time went, and what limits it."""
    from simdevice.report.pictures import check_picture

    if timeline is not None:
        check_picture(timeline)
    files = [path for path in (timeline, perfetto, chrome) if path is not None]
    for path in files:
        check_output(path)
    if len({path.resolve() for path in files}) < len(files):
        raise SpecError("--timeline, --perfetto and --chrome need a file each")
    from simdevice import report
    from simdevice.devices.accelerator import Accelerator
    from simdevice.hardware import AcceleratorSpec, load, load_link
    from simdevice.report import perfetto as traces
    from simdevice.report import timeline as pictures

    if perfetto is not None:
        traces.check_installed()
    spec = load(device, **overrides(set_))
    if not isinstance(spec, AcceleratorSpec):
        raise SpecError(f"{spec.name} simulates no tiles: use `simacc cost`, or an accelerator such as 'edge-npu'")
    machine = Accelerator(spec, load_link(spec.link), engine=engine)
    trace = load_or_capture(target, tracing)
    with progress(f"simulating on {machine.name}"):
        run = machine.run(trace)
    if timeline is not None:
        with progress(f"drawing {timeline}"):
            pictures.write_png(run, timeline)
    if perfetto is not None:
        with progress(f"writing {perfetto}"):
            traces.write_perfetto(run, perfetto, max_slices=max_slices)
    if chrome is not None:
        with progress(f"writing {chrome}"):
            traces.write_chrome(run, chrome, max_slices=max_slices)
    page = report.run_page(run, depth=depth, top=top)
    more = report.Fact("tiles", value=run.tiles), report.Fact("saved", value=[str(path) for path in files])
    print_page(page.with_facts(*more), as_json=json)
    for path in files if not json else ():
        print_saved(path)
