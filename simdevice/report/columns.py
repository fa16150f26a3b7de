"""How the rows of reports stand on a page: the columns of each kind of row, one screen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from simdevice.analysis.occupancy import Level
from simdevice.analysis.utilisation import Component, Stall
from simdevice.errors import SimdeviceError
from simdevice.report.page import BYTES, COUNT, FLOPS, NUMBER, SECONDS, SHARE, TEXT, Column, Table
from simdevice.report.renderers import json, markdown, terminal
from simdevice.report.tables import Hot, PerDevice, Share, Transfer, Unknown

if TYPE_CHECKING:
    from rich.table import Table as RichTable

__all__ = ["COLUMNS", "table", "to_dicts", "to_markdown", "to_rich"]

NAME = Column("name", "name", TEXT)
TIME = Column("time_s", "time", SECONDS)
OF_ALL = Column("share", "share", SHARE)
WORK = Column("flops", "FLOPs", FLOPS, at_least="is_lower_bound")
MOVED = Column("moved_bytes", "bytes", BYTES)
BOUND = Column("is_lower_bound", hidden=True)
UNIT = Column("unit", "unit", TEXT)

COLUMNS: dict[type, tuple[Column, ...]] = {
    Component: (
        *(NAME, TIME, OF_ALL, Column("work", "work", COUNT), UNIT),
        Column("efficiency_share", "efficiency", SHARE),
    ),
    Hot: (
        *(NAME, Column("shapes", "shapes", TEXT), Column("calls", "calls", COUNT), TIME, OF_ALL, WORK, MOVED),
        *(Column("bound", "bound", TEXT), BOUND),
    ),
    Level: (
        *(NAME, Column("mean", "mean", NUMBER), Column("peak", "peak", COUNT)),
        *(Column("capacity", "capacity", COUNT), UNIT),
    ),
    PerDevice: (
        *(NAME, Column("operators", "operators", COUNT), TIME, Column("busy_share", "busy", SHARE), WORK, MOVED),
        *(Column("peak_live_bytes", "alive at the peak", BYTES), BOUND),
    ),
    Share: (NAME, Column("operators", "operators", COUNT), TIME, OF_ALL, WORK, MOVED, BOUND),
    Stall: (NAME, TIME, OF_ALL),
    Transfer: (Column("direction", "direction", TEXT), Column("copies", "copies", COUNT), MOVED, TIME),
    Unknown: (NAME, Column("calls", "calls", COUNT), TIME, MOVED, Column("reason", "reason", TEXT)),
}


def table(key: str, kind: type, rows: Sequence[Any]) -> Table:
    """Rows of one kind as a table of a page."""
    return Table.of(key, COLUMNS[kind], rows)


def _of_any(rows: Sequence[Any]) -> Table:
    if not rows:
        return Table("", ())
    if type(rows[0]) not in COLUMNS:
        raise SimdeviceError(f"expected rows of a report, got {type(rows[0]).__name__}")
    return table("", type(rows[0]), rows)


def to_dicts(rows: Sequence[Any]) -> list[dict[str, Any]]:
    """Plain data, for JSON: numbers unrounded, in the unit their key names."""
    return json.rows(_of_any(rows))


def to_markdown(rows: Sequence[Any]) -> str:
    """A GitHub table of a report's rows. No rows, no text."""
    return markdown.table(_of_any(rows))


def to_rich(rows: Sequence[Any], title: str = "") -> RichTable:
    """The same for a terminal."""
    return terminal.table(_of_any(rows), title)
