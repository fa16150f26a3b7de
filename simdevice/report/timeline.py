"""A picture of a run: a lane per engine, buffer occupancy and FIFO depth over time, as PNG."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simdevice.analysis.occupancy import Series, buffer_series, busy_fraction, columns, fifo_series, lanes
from simdevice.errors import SimdeviceError
from simdevice.extras import extra
from simdevice.files import atomic_write
from simdevice.records import Run
from simdevice.report.page import Picture
from simdevice.report.pictures import check_picture, png
from simdevice.units import PS_PER_S, format_seconds

__all__ = ["picture", "write_png"]

BINS = 720
"""Columns that a long run is averaged into: about two pixels each, so that none is lost."""

MOST_BARS = 300
"""Up to here a lane shows single tiles, a level its single steps; beyond, what it was like in each column."""

LIGHT, DARK = "#a9b6c2", "#5a6b7b"
COLOURS = {"load": "#3b7dd8", "array": "#d8643b", "vector": "#e2a93b", "link": "#8a5bd0", "store": "#3ba16b"}


def write_png(run: Run, path: str | Path) -> None:
    """The picture as a file.

    Raises:
        SimdeviceError: the run has no tiles, the name does not end in .png, or matplotlib is not installed.
    """
    check_picture(path)
    content = picture(run).content
    with atomic_write(path, "wb") as file:
        file.write(content)


def picture(run: Run) -> Picture:
    """Draw the run.

    Raises:
        SimdeviceError: the run has no tiles, or several devices, or matplotlib is not installed.
    """
    if run.per_device:
        raise SimdeviceError(f"a picture shows one device, this run has {len(run.per_device)}: give run.per_device[i]")
    drawn = lanes(run)
    if not drawn:
        raise SimdeviceError(f"{run.device} has no timeline: only an accelerator such as 'edge-npu' simulates tiles")
    plots = extra("matplotlib.figure", "plots", "a timeline picture")
    figure = plots.Figure(figsize=(14, 1.6 + 0.55 * len(drawn) + 3), layout="constrained")
    scale, unit = _time_unit(run.makespan_ps)
    top, middle, bottom = figure.subplots(3, 1, sharex=True, height_ratios=[0.55 * len(drawn), 1.2, 1.0])
    edges = np.linspace(0, run.makespan_ps, BINS + 1)
    for row, lane in enumerate(drawn):
        colour = COLOURS[lane.name]
        if len(lane.tile) <= MOST_BARS:
            spans = np.stack([lane.start_ps, lane.end_ps - lane.start_ps], axis=1) / scale
            # an edge of the same colour keeps a short tile visible; a white line parts neighbours
            top.broken_barh(spans.tolist(), (row - 0.4, 0.8), facecolor=colour, edgecolor=colour, linewidth=0.5)
            meeting = lane.start_ps[1:][lane.start_ps[1:] == lane.end_ps[:-1]] / scale
            top.vlines(meeting, row - 0.4, row + 0.4, color="white", linewidth=0.6)
        else:
            height = row + 0.4 - 0.8 * busy_fraction(lane, edges)
            top.stairs(height, edges / scale, baseline=row + 0.4, fill=True, color=colour)
    if any(len(lane.tile) > MOST_BARS for lane in drawn):
        _note(top, "height: share of the time that it is busy")
    whole = max(run.makespan_ps, 1)
    busy = [int((lane.end_ps - lane.start_ps).sum()) / whole for lane in drawn]
    top.set_yticks(range(len(drawn)), [f"{lane.name}  {share:.1%}" for lane, share in zip(drawn, busy, strict=True)])
    top.invert_yaxis()
    top.set_title(
        f"{run.trace.origin.workload or 'A program'} on {run.device}: {format_seconds(run.time_s)}", loc="left"
    )
    _draw_level(middle, buffer_series(run), scale, edges, 1024)
    _draw_level(bottom, fifo_series(run), scale, edges, 1)
    capacity = run.program.buffer_bytes if run.program is not None else 0
    middle.axhline(capacity / 1024, color="black", linewidth=0.8, linestyle="--")
    middle.set_ylim(0, 1.08 * capacity / 1024)
    middle.set_ylabel("buffer, KiB")
    bottom.set_ylabel("tiles ready")
    bottom.set_xlabel(f"time, {unit}")
    bottom.set_xlim(0, run.makespan_ps / scale)
    return Picture("timeline.png", "image/png", png(figure))


def _draw_level(axes: Any, series: Series, scale: float, edges: NDArray[np.float64], divisor: int) -> None:
    """Step by step; where there are many steps, the highest value in each column and, darker, the mean."""
    times, values = series.times_ps.astype(float), series.values
    highest = int(values.max(initial=0)) / divisor
    if len(times) <= 4 * MOST_BARS:
        axes.fill_between(times / scale, values / divisor, step="post", color=DARK, linewidth=0.5)
    else:
        most, mean = columns(series, edges)
        for column, colour in ((most, LIGHT), (mean, DARK)):
            axes.stairs(column / divisor, edges / scale, fill=True, color=colour)
        axes.text(
            1.0, 1.02, "light: most, dark: mean", transform=axes.transAxes, ha="right", color="grey", size="small"
        )
    axes.set_ylim(0, max(1.08 * highest, 1))
    axes.yaxis.get_major_locator().set_params(integer=True)
    if not highest:
        axes.text(0.5, 0.5, "none at any time", transform=axes.transAxes, ha="center", va="center", color="grey")


def _note(axes: Any, text: str) -> None:
    axes.text(1.0, 1.02, text, transform=axes.transAxes, ha="right", color="grey", size="small")


def _time_unit(makespan_ps: int) -> tuple[float, str]:
    for exponent, name in ((0, "s"), (3, "ms"), (6, "us")):
        if makespan_ps * 10**exponent >= PS_PER_S:
            return PS_PER_S / 10**exponent, name
    return 1000.0, "ns"
