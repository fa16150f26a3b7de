"""A page for a pipe or a file: aligned columns, whole values, no boxes, no colours, no width to fit."""

from __future__ import annotations

from simdevice.report.page import Page, Section, Table

__all__ = ["render"]

GAP = "  "


def render(page: Page) -> str:
    """The page as plain text."""
    facts = page.shown_facts
    width = max((len(fact.label) for fact in facts), default=0)
    blocks = [page.title] if page.title else []
    blocks += ["\n".join(f"{fact.label:{width}}{GAP}{fact.text}" for fact in facts)] if facts else []
    blocks += [_section(section) for section in page.shown_sections]
    return "\n\n".join(blocks) + "\n"


def _section(section: Section) -> str:
    lines = [section.heading] if section.heading else []
    for table in section.tables:
        lines += _table(table)
    lines += [section.note] if section.note else []
    lines += [f"picture {picture.name} ({picture.media_type})" for picture in section.pictures]
    return "\n".join(lines)


def _table(table: Table) -> list[str]:
    if not (table.rows and table.shown):
        return []
    rows = [[column.heading for column in table.shown], *table.cells()]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]

    def line(row: list[str]) -> str:
        cells = zip(row, widths, table.shown, strict=True)
        return GAP + GAP.join(f"{c:>{w}}" if column.unit.is_number else f"{c:{w}}" for c, w, column in cells).rstrip()

    return [line(row) for row in rows]
