"""The table of a sweep: files, the Pareto front, and its picture."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simdevice.errors import SimdeviceError, UnknownNameError
from simdevice.extras import extra
from simdevice.files import atomic_write

__all__ = ["SweepTable", "check_ending"]

Record = dict[str, Any]


def check_ending(path: str | Path) -> None:
    """Refuse a table file of an unknown kind, before the work is done.

    Raises:
        SimdeviceError: neither .csv nor .parquet.
    """
    if Path(path).suffix not in (".csv", ".parquet"):
        raise SimdeviceError(f"{path}: expected a name that ends in .csv or .parquet")


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

    def plot_pareto(self, path: str | Path, cost: str, result: str = "latency_s") -> None:
        """Every machine that ran, and the front as a line, as PNG.

        Raises:
            SimdeviceError: matplotlib is not installed.
        """
        figure = extra("matplotlib.figure", "plots", "a plot").Figure(figsize=(8, 5), layout="constrained")
        axes, ran, front = figure.subplots(), self._ran(), self.pareto(cost, result)
        axes.scatter(
            [r[cost] for r in ran], [r[result] for r in ran], s=14, color="#3b7dd8", alpha=0.5, label="machines"
        )
        axes.step(
            [r[cost] for r in front], [r[result] for r in front], where="post", color="#d8643b", label="Pareto front"
        )
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel(cost)
        axes.set_ylabel(result)
        axes.legend()
        with atomic_write(path, "wb") as file:
            figure.savefig(file, format="png", dpi=110)
