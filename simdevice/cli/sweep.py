"""`simacc sweep`: one model on many machines."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from simdevice.cli._common import check_output, load_or_capture, print_page, print_saved
from simdevice.cli._options import DeviceOption, JsonOption, TargetArgument, Tracing, tracing_options
from simdevice.errors import SimdeviceError, SpecError

__all__ = ["command"]

Axes = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="FIELD=VALUES", help="A field and its values a,b,c, or its range low..high."),
]
Engine = Annotated[str, typer.Option("--engine", help="The engine that simulates each machine.")]
Samples = Annotated[
    int | None, typer.Option("--sample", "--samples", min=1, help="Draw this many machines instead of the whole grid.")
]
Seed = Annotated[int, typer.Option("--seed", help="Of the drawing.")]
Jobs = Annotated[
    int, typer.Option("--processes", "--jobs", "-j", help="Processes that share the work (-1: one per core).")
]
Backend = Annotated[str | None, typer.Option("--backend", help="A joblib backend, or 'ray' for a cluster.")]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the table: .parquet or .csv.")
]
Resume = Annotated[
    bool, typer.Option("--resume/--restart", help="Go on where a stopped sweep to the same file left off, or don't.")
]
Plot = Annotated[
    Path | None, typer.Option("--plot", metavar="FILE.png", help="Draw the machines and the Pareto front.")
]
Against = Annotated[
    str | None, typer.Option("--against", help="The front's cost: a swept field (default: the first that varies).")
]
Top = Annotated[int, typer.Option("--top", min=1, help="How many machines to list.")]


@tracing_options(without=("scopes",))
def command(
    target: TargetArgument,
    device: DeviceOption = "edge-npu",
    set_: Axes = None,
    engine: Engine = "native",
    samples: Samples = None,
    seed: Seed = 0,
    jobs: Jobs = 1,
    backend: Backend = None,
    output: Output = None,
    resume: Resume = True,
    plot: Plot = None,
    against: Against = None,
    *,
    tracing: Tracing,
    top: Top = 10,
    json: JsonOption = False,
) -> None:
    """Simulate a model or a trace file on every combination of an accelerator's fields; fastest first."""
    from simdevice.report.pictures import check_picture

    if plot is not None:
        check_picture(plot)
    for path in (output, plot):
        check_output(path)
    axes = _axes(set_)
    cost = _cost(against, axes)
    from simdevice.sweeps import check, sweep

    check(device, axes, samples=samples, seed=seed, engine=engine, jobs=jobs, backend=backend, path=output)
    trace = load_or_capture(target, tracing)
    if output is not None and not resume:
        Path(f"{output}.partial").unlink(missing_ok=True)
    with _bar(output) as told:
        table = sweep(
            trace,
            device,
            engine=engine,
            samples=samples,
            seed=seed,
            jobs=jobs,
            backend=backend,
            path=output,
            progress=told,
            **axes,
        )
    reasons = [record["error"] for record in table.records if record["error"]]
    if len(reasons) == len(table):
        raise SimdeviceError(f"none of {len(table):,} machines can run this trace: {reasons[0]}")
    if plot is not None:
        table.plot_pareto(plot, cost)
    print_page(table.page(cost, top), as_json=json)
    for saved in (output, plot):
        if saved is not None and not json:
            print_saved(saved)


@contextmanager
def _bar(output: Path | None) -> Iterator[Any]:
    """A bar on a terminal; and what an interruption leaves."""
    shown, last = Console(stderr=True), (0, 0)
    columns = (TextColumn("machines"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=shown, transient=True, disable=not shown.is_terminal) as bar:
        task = bar.add_task("machines", total=None)

        def told(done: int, total: int) -> None:
            nonlocal last
            last = done, total
            bar.update(task, completed=done, total=total)

        try:
            yield told
        except KeyboardInterrupt:
            kept = f": the same command goes on from {output}.partial" if output is not None else ""
            bar.stop()
            print(f"simacc: stopped after {last[0]:,} of {last[1]:,} machines{kept}", file=sys.stderr)
            raise


def _axes(settings: list[str] | None) -> dict[str, Any]:
    """`["buffer_bytes=128KiB,2MiB", "array_rows=16..64"]` as the axes of a sweep."""
    from simdevice.sweeps import Range

    axes: dict[str, Any] = {}
    for setting in settings or []:
        field, equals, text = setting.partition("=")
        low, dots, high = text.partition("..")
        values = [low, high] if dots else text.split(",")
        if not equals or not field or not all(values):
            raise SpecError(f"expected --set FIELD=VALUE,VALUE,... or FIELD=LOW..HIGH, got {setting!r}")
        if field in axes:
            raise SpecError(f"--set {field} is given twice")
        axes[field] = Range(low, high) if dots else [{"true": True, "false": False}.get(v.lower(), v) for v in values]
    if not axes:
        raise SpecError("a sweep needs a field to vary, such as --set buffer_bytes=512KiB,2MiB")
    return axes


def _cost(against: str | None, axes: dict[str, Any]) -> str:
    if against is not None:
        if against not in axes:
            raise SpecError(f"--against {against}: expected one of the swept fields, {', '.join(axes)}")
        return against
    varying = (name for name, values in axes.items() if not isinstance(values, list) or len(values) > 1)
    return next(varying, next(iter(axes)))
