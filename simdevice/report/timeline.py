"""A picture of a run: a lane per engine, buffer occupancy and FIFO depth over time, as PNG."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simdevice.errors import SimdeviceError
from simdevice.extras import extra
from simdevice.files import atomic_write
from simdevice.records import Run
from simdevice.records.program import UNITS
from simdevice.report.pictures import check_picture
from simdevice.report.utilisation import Series, buffer_series, fifo_series
from simdevice.units import PS_PER_S, format_seconds

__all__ = ["Lane", "busy_fraction", "columns", "lanes", "write_png"]

Int64 = NDArray[np.int64]

BINS = 720
"""Columns that a long run is averaged into: about two pixels each, so that none is lost."""

MOST_BARS = 300
"""Up to here a lane shows single tiles, a level its single steps; beyond, what it was like in each column."""

LIGHT, DARK = "#a9b6c2", "#5a6b7b"
COLOURS = {"load": "#3b7dd8", "array": "#d8643b", "vector": "#e2a93b", "link": "#8a5bd0", "store": "#3ba16b"}


class Lane:
    """One engine's busy intervals in picoseconds, in order."""

    def __init__(self, name: str, start_ps: Int64, end_ps: Int64, tile: Int64) -> None:
        self.name, self.start_ps, self.end_ps, self.tile = name, start_ps, end_ps, tile


def lanes(run: Run) -> list[Lane]:
    """The load engine, each unit that computed anything, the store engine; empty without tiles."""
    program, timeline = run.program, run.timeline
    if program is None or timeline is None:
        return []
    load, store, unit = (program.column(n) for n in ("load_ticks", "store_ticks", "unit"))
    spans = [("load", timeline.load_end - load, timeline.load_end, load > 0)]
    spans += [(u, timeline.compute_start, timeline.compute_end, unit == i) for i, u in enumerate(UNITS)]
    spans += [("store", timeline.store_start, timeline.store_end, store > 0)]
    found = []
    for name, start, end, chosen in spans:
        tile = np.flatnonzero(chosen & (end > start))
        if len(tile):
            found.append(Lane(name, program.to_ps(start[tile]), program.to_ps(end[tile]), tile))
    return found


def busy_fraction(lane: Lane, edges_ps: NDArray[np.float64]) -> NDArray[np.float64]:
    """How much of each interval between edges the lane was busy."""
    length = np.concatenate([[0], np.cumsum(lane.end_ps - lane.start_ps)])

    def busy_until(time: NDArray[np.float64]) -> NDArray[np.float64]:
        last = np.searchsorted(lane.start_ps, time, side="right")
        begun = np.maximum(last - 1, 0)
        beyond = np.clip(time - lane.end_ps[begun], None, 0)
        return np.where(last > 0, length[last] + beyond, 0.0)

    share: NDArray[np.float64] = np.diff(busy_until(edges_ps)) / np.diff(edges_ps)
    return share


def write_png(run: Run, path: str | Path) -> None:
    """Draw the run.

    Raises:
        SimdeviceError: the run has no tiles, the name does not end in .png, or matplotlib is not installed.
    """
    check_picture(path)
    found = lanes(run)
    if not found:
        raise SimdeviceError(f"{run.device} has no timeline: only an accelerator such as 'edge-npu' simulates tiles")
    plots = extra("matplotlib.figure", "plots", "a timeline picture")
    figure = plots.Figure(figsize=(14, 1.6 + 0.55 * len(found) + 3), layout="constrained")
    scale, unit = _time_unit(run.makespan_ps)
    top, middle, bottom = figure.subplots(3, 1, sharex=True, height_ratios=[0.55 * len(found), 1.2, 1.0])
    edges = np.linspace(0, run.makespan_ps, BINS + 1)
    for row, lane in enumerate(found):
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
    if any(len(lane.tile) > MOST_BARS for lane in found):
        _note(top, "height: share of the time that it is busy")
    whole = max(run.makespan_ps, 1)
    busy = [int((lane.end_ps - lane.start_ps).sum()) / whole for lane in found]
    top.set_yticks(range(len(found)), [f"{lane.name}  {share:.1%}" for lane, share in zip(found, busy, strict=True)])
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
    with atomic_write(path, "wb") as file:
        figure.savefig(file, format="png", dpi=110)


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


def columns(series: Series, edges_ps: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The highest value and the time average of a level in each interval between edges."""
    times, values = series.times_ps.astype(float), series.values.astype(float)
    length = np.concatenate([[0.0], np.cumsum(values[:-1] * np.diff(times))])
    last = np.searchsorted(times, edges_ps, side="right") - 1
    held = np.where(last < 0, 0.0, values[last])  # at each edge; before the first step there is nothing
    total = np.where(last < 0, 0.0, length[last] + held * (edges_ps - times[last]))
    most = held[:-1].copy()
    np.maximum.at(
        most, np.searchsorted(edges_ps, times[times < edges_ps[-1]], side="right") - 1, values[times < edges_ps[-1]]
    )
    return most, np.diff(total) / np.diff(edges_ps)


def _time_unit(makespan_ps: int) -> tuple[float, str]:
    for exponent, name in ((0, "s"), (3, "ms"), (6, "us")):
        if makespan_ps * 10**exponent >= PS_PER_S:
            return PS_PER_S / 10**exponent, name
    return 1000.0, "ns"
