"""A page as GitHub Markdown."""

from __future__ import annotations

from simdevice.report.page import Page, Section, Table

__all__ = ["render", "table"]


def render(page: Page) -> str:
    """The page under one heading, its sections under their own."""
    parts = [f"# {page.title}\n"] if page.title else []
    if page.shown_facts:
        parts.append("".join(f"- {fact.label}: {fact.text}\n" for fact in page.shown_facts))
    parts += [part for section in page.shown_sections for part in _section(section)]
    return "\n".join(parts)


def _section(section: Section) -> list[str]:
    parts = [f"## {section.heading}\n"] if section.heading else []
    parts += [text for text in map(table, section.tables) if text]
    parts += [f"{section.note}\n"] if section.note else []
    parts += [f"![{picture.name}]({picture.name})\n" for picture in section.pictures]
    return parts


def table(table: Table) -> str:
    """A table; text to the left, numbers to the right. No rows, no text."""
    if not (table.rows and table.shown):
        return ""
    lines = [[_escaped(column.heading) for column in table.shown]]
    lines += [["---:" if column.unit.is_number else "---" for column in table.shown]]
    lines += [[_escaped(cell) for cell in row] for row in table.cells()]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def _escaped(text: str) -> str:
    return text.replace("|", r"\|")
