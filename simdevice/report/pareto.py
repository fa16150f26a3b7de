"""The table of a sweep: files, the Pareto front, and its picture."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simdevice.errors import SimdeviceError, UnknownNameError
from simdevice.extras import extra
from simdevice.files import atomic_write
from simdevice.report.page import COUNT, SHARE, TEXT, Column, Page, Picture, Section, Table, Unit
from simdevice.report.pictures import check_picture, png
from simdevice.units import format_bytes, format_seconds

__all__ = ["SweepTable", "check_ending", "quantity"]

Record = dict[str, Any]

FASTEST = (
    Column("latency_s", "latency", Unit(format_seconds)),
    Column("array_busy_share", "array busy", SHARE),
    Column("memory_busy_share", "memory busy", SHARE),
    Column("tiles", "tiles", COUNT),
    Column("hot_spot", "hot-spot", TEXT),
)

MOST_TICKS = 8
BINARY = ("B", "KiB", "MiB", "GiB", "TiB")


def check_ending(path: str | Path) -> None:
    """Refuse a table file of an unknown kind, before the work is done.

    Raises:
        SimdeviceError: neither .csv nor .parquet, or Parquet without pyarrow.
    """
    if Path(path).suffix not in (".csv", ".parquet"):
        raise SimdeviceError(f"{path}: expected a name that ends in .csv or .parquet")
    if Path(path).suffix == ".parquet":
        extra("pyarrow.parquet", "sweep", f"{path}: Parquet")


@dataclass(frozen=True)
class SweepTable:
    """One record per machine: the swept fields, then the results. Where `error` is not empty the
    machine can't run the trace and has no other result."""

    axes: tuple[str, ...]
    results: tuple[str, ...]
    records: tuple[Record, ...]

    def __len__(self) -> int:
        return len(self.records)

    def column(self, name: str) -> list[Any]:
        """One value per machine.

        Raises:
            UnknownNameError: no such column.
        """
        if name not in self.axes + self.results:
            raise UnknownNameError("column", name, self.axes + self.results)
        return [record[name] for record in self.records]

    def save(self, path: str | Path) -> None:
        """A table file: Parquet or CSV, by its ending.

        Raises:
            SimdeviceError: another ending, or Parquet without pyarrow.
        """
        check_ending(path)
        if Path(path).suffix == ".csv":
            with atomic_write(path) as file:
                writer = csv.DictWriter(file, [*self.axes, *self.results], lineterminator="\n")
                writer.writeheader()
                writer.writerows(self.records)
            return
        arrow = extra("pyarrow", "sweep", f"{path}: Parquet")
        parquet = extra("pyarrow.parquet", "sweep", f"{path}: Parquet")
        with atomic_write(path, "wb") as file:
            parquet.write_table(arrow.Table.from_pydict({n: self.column(n) for n in (*self.axes, *self.results)}), file)

    def pareto(self, cost: str, result: str = "latency_s") -> list[Record]:
        """The machines that no other beats in both columns (less is better), cheapest first."""
        self.column(cost), self.column(result)
        front: list[Record] = []
        for record in sorted(self._ran(), key=lambda r: (r[cost], r[result])):
            if not front or record[result] < front[-1][result]:
                front.append(record)
        return front

    def _ran(self) -> list[Record]:
        return [record for record in self.records if not record["error"]]

    def page(self, cost: str, top: int = 10, picture: Picture | None = None) -> Page:
        """The fastest, with the Pareto front marked; then why others did not run. As data, every machine.

        Raises:
            UnknownNameError: no such column.
        """
        front = {id(record) for record in self.pareto(cost)}
        ran = sorted(self._ran(), key=lambda record: (record["latency_s"], record[cost]))
        columns = (
            *(Column(name, name, _unit(name, self.column(name))) for name in self.axes),
            *FASTEST,
            Column("front", "front"),
        )
        marked = [{**record, "front": "*" if id(record) in front else None} for record in ran[:top]]
        fastest = Table.of("", columns, marked)
        title = (
            f"{len(ran):,} of {len(self):,} machines ran; the fastest {len(marked)}; *: no other beats it in {cost} too"
        )
        reasons = sorted({record["error"] for record in self.records if record["error"]})[:3]
        data = Table.of("machines", (Column(n, hidden=True) for n in (*self.axes, *self.results)), self.records)
        sections = (
            Section("fastest", tables=(fastest, data), note="\n".join(f"did not run: {reason}" for reason in reasons)),
            *((Section("pareto", "Pareto front", pictures=(picture,)),) if picture is not None else ()),
        )
        return Page(title, sections=sections, document="machines")

    def picture(self, cost: str, result: str = "latency_s") -> Picture:
        """Every machine that ran, and the front as a line. Colour shows another swept field where one varies.

        Raises:
            UnknownNameError: no such column.
            SimdeviceError: matplotlib is not installed, or a column that is no number to draw.
        """
        return Picture("pareto.png", "image/png", png(self._figure(cost, result)))

    def plot_pareto(self, path: str | Path, cost: str, result: str = "latency_s") -> None:
        """The picture as a file.

        Raises:
            UnknownNameError: no such column.
            SimdeviceError: a name that does not end in .png, or what `picture` refuses.
        """
        check_picture(path)
        content = self.picture(cost, result).content
        with atomic_write(path, "wb") as file:
            file.write(content)

    def _figure(self, cost: str, result: str) -> Any:
        figure = extra("matplotlib.figure", "plots", "a plot").Figure(figsize=(9, 5.5), layout="constrained")
        axes, ran, front = figure.subplots(), self._ran(), self.pareto(cost, result)
        if not ran:
            raise SimdeviceError("no machine ran: there is nothing to plot")
        for name in (cost, result):
            if not all(_drawable(record[name]) for record in ran):
                raise SimdeviceError(f"{name}: a plot needs numbers, not {ran[0][name]!r}")
        marks: dict[str, Any] = {"s": 18, "alpha": 0.7, "linewidth": 0}
        colour = next((name for name in self.axes if name != cost and _varies(ran, name)), None)
        x, y = ([record[name] for record in ran] for name in (cost, result))
        if colour is None:
            axes.scatter(x, y, color="#3b7dd8", label="machines", **marks)
        else:
            shown = axes.scatter(x, y, c=[record[colour] for record in ran], norm="log", cmap="viridis_r", **marks)
            bar = figure.colorbar(shown, ax=axes, label=colour)
            _ticks(bar.ax.yaxis, colour, [record[colour] for record in ran], log=True)
        x, y = ([record[name] for record in front] for name in (cost, result))
        style = {"marker": "o", "markersize": 6, "markerfacecolor": "none", "markeredgewidth": 0.8}
        axes.step(x, y, where="post", color="#d8643b", linewidth=1.2, label="Pareto front", **style)
        for axis, name in (("x", cost), ("y", result)):
            _scale(axes, axis, name, [record[name] for record in ran])
        axes.set_title(f"{len(ran):,} machines", loc="left")
        axes.grid(alpha=0.25)
        axes.legend()
        return figure


def _drawable(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _varies(records: list[Record], name: str) -> bool:
    values = {record[name] for record in records}
    return len(values) > 1 and all(_drawable(value) and value > 0 for value in values)


def _scale(axes: Any, which: str, name: str, values: list[Any]) -> None:
    """Axis "x" or "y": logarithmic where values are some factor apart."""
    log = min(values) > 0 and max(values) > 4 * min(values)
    axes.set(**{f"{which}label": name, f"{which}scale": "log" if log else "linear"})
    _ticks(getattr(axes, f"{which}axis"), name, values, log=log)


def _ticks(axis: Any, name: str, values: list[Any], *, log: bool) -> None:
    """At the values themselves where they are few, else at round ones, with the unit that the name ends in."""
    ticker = extra("matplotlib.ticker", "plots", "a plot")
    few = sorted(set(values))
    if len(few) <= MOST_TICKS and name != "latency_s":
        axis.set_major_locator(ticker.FixedLocator(few))
    elif log:
        binary = name.endswith("_bytes")
        axis.set_major_locator(ticker.LogLocator(base=2 if binary else 10, subs=(1,) if binary else (1, 2, 5)))
    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: quantity(name, value)))
    axis.set_minor_locator(ticker.NullLocator())


def _unit(name: str, values: list[Any]) -> Unit:
    """How a swept field is shown."""
    return Unit(lambda value: quantity(name, value)) if all(map(_drawable, values)) else TEXT


def quantity(name: str, value: float) -> str:
    """A column's value with the unit that its name ends in."""
    if name.endswith("_bytes_per_s"):
        return f"{format_bytes(value)}/s"
    if name.endswith("_bytes"):
        power = max((p for p in (0, 10, 20, 30, 40) if value >= 2**p), default=0)
        return f"{value / 2**power:.4g} {dict(zip((0, 10, 20, 30, 40), BINARY, strict=True))[power]}"
    return format_seconds(value) if name.endswith("_s") else f"{value:,.6g}"
