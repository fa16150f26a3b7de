"""A page on a terminal, by rich: it wraps to the width, and a table that can't becomes a list of its rows."""

from __future__ import annotations

from io import StringIO
from typing import TYPE_CHECKING

from simdevice.report.page import Page
from simdevice.report.page import Table as Data

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

__all__ = ["render", "show", "table"]

LEAST_TEXT = 8
"""The narrowest a column of text may wrap to; numbers stay whole."""

PADDING = 1


def render(page: Page, width: int = 100) -> str:
    """What `show` would print on a terminal of this width, without colours."""
    from rich.console import Console

    out = StringIO()
    show(page, Console(file=out, width=width))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def show(page: Page, console: Console) -> None:
    """Print the page."""
    from rich.table import Table
    from rich.text import Text

    if page.title:
        console.print(Text(page.title, style="bold"))  # Text: brackets in a name are no markup
    if page.shown_facts:
        facts = Table.grid(padding=(0, 2))
        for fact in page.shown_facts:
            facts.add_row(Text(fact.label, style="bold"), Text(fact.text))
        console.print(facts)
    for section in page.shown_sections:
        console.print()
        heading = section.heading
        for data in section.tables:
            if data.rows and data.shown:
                if narrowest(data) > console.width:
                    _as_list(data, heading, console)
                else:
                    console.print(table(data, heading))
                heading = ""
        if heading:
            console.print(Text(heading, style="bold"))
        if section.note:
            console.print(Text(section.note))
        for picture in section.pictures:
            console.print(Text(f"picture {picture.name} ({picture.media_type})"))


def narrowest(data: Data) -> int:
    """The width below which a table would have to cut its numbers."""
    width = len(data.shown) + 1  # what stands left of, between and right of the columns
    for column, cells in zip(data.shown, zip(*data.cells(), strict=True), strict=True):
        needed = max(map(len, (column.heading, *cells)))
        width += (needed if column.unit.is_number else min(needed, LEAST_TEXT)) + PADDING
    return width


def table(data: Data, title: str = "") -> Table:
    """A table as rich has them: on a narrow terminal text wraps and numbers stay whole."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    shown = Table(
        title=Text(title) if title else None,
        title_justify="left",
        title_style="bold",
        header_style="bold",
        box=SIMPLE_HEAD,
        padding=(0, PADDING, 0, 0),
    )
    if data.rows:
        for column in data.shown:
            number = column.unit.is_number
            shown.add_column(
                Text(column.heading), justify="right" if number else "left", no_wrap=number, overflow="fold"
            )
    for row in data.cells():
        shown.add_row(*map(Text, row))
    return shown


def _as_list(data: Data, title: str, console: Console) -> None:
    """Every row as lines of heading and value."""
    from rich.text import Text

    if title:
        console.print(Text(title, style="bold"))
    for row in data.cells():
        console.print()
        for column, cell in zip(data.shown, row, strict=True):
            console.print(Text.assemble((f"{column.heading}: ", "bold"), cell))
