"""A page for programs: raw values under their keys; what is only shown has none."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

from simdevice.report.page import Page, Table

__all__ = ["data", "render", "rows"]


def render(page: Page) -> str:
    """The page as one JSON document."""
    return json.dumps(data(page), indent=2) + "\n"


def data(page: Page) -> Any:
    """The page as plain data: its facts, then its tables, a table without rows as an empty list."""
    tables = {table.key: rows(table) for section in page.sections for table in section.tables if table.key}
    if page.document:
        return tables[page.document]
    plain: dict[str, Any] = {}
    for fact in page.facts:
        if fact.key:
            _put(plain, fact.key, fact.value)
    plain.update(tables)
    pictures = [picture for section in page.sections for picture in section.pictures]
    if pictures:
        plain["pictures"] = [
            {"name": p.name, "media_type": p.media_type, "base64": b64encode(p.content).decode()} for p in pictures
        ]
    return plain


def rows(table: Table) -> list[dict[str, Any]]:
    """A table's rows as plain data."""
    plain: list[dict[str, Any]] = [{} for _ in table.rows]
    for place, column in enumerate(table.columns):
        if column.key:
            for row, values in zip(plain, table.rows, strict=True):
                _put(row, column.key, values[place])
    return plain


def _put(plain: dict[str, Any], key: str, value: Any) -> None:
    """Under the key; a dot in it goes one dictionary deeper."""
    *outer, last = key.split(".")
    for name in outer:
        plain = plain.setdefault(name, {})
    plain[last] = value
