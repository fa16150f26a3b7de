"""A page: what a report says, as plain data. It renders nothing; `renderers` do, and know only what is here.

    page = Page("A title", facts=(Fact("time_s", "time", 1e-7, "100 ns"),), sections=(Section(...),))

A renderer for people takes facts with a label, columns that are not hidden, headings, notes and pictures. One for
programs takes what has a key, with raw values: numbers unrounded, in the unit their key names. A dot in a key nests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

from simdevice.units import format_bytes, format_count, format_seconds

__all__ = [
    "BYTES",
    "BYTES_PER_S",
    "COUNT",
    "FLOPS",
    "FLOPS_PER_S",
    "NUMBER",
    "SECONDS",
    "SHARE",
    "TEXT",
    "Column",
    "Fact",
    "Page",
    "Picture",
    "Section",
    "Table",
    "Unit",
]


@dataclass(frozen=True, slots=True)
class Unit:
    """How a column's values are shown: their text, and whether they stand to the right as numbers do."""

    format: Callable[[Any], str]
    is_number: bool = True


def _four_digits(value: Any) -> float:
    return float(f"{float(value):.4g}")


def _number(value: Any) -> str:
    return f"{_four_digits(value):,}".removesuffix(".0") if isinstance(value, float) else f"{value:,}"


TEXT = Unit(lambda value: " ".join(str(value).split()), is_number=False)
COUNT = Unit(lambda value: f"{value:,}")
NUMBER = Unit(_number)
SECONDS = Unit(lambda value: format_seconds(_four_digits(value)))
BYTES = Unit(lambda value: format_bytes(_four_digits(value)))
BYTES_PER_S = Unit(lambda value: f"{format_bytes(_four_digits(value))}/s")
FLOPS = Unit(lambda value: format_count(_four_digits(value), "").strip())
FLOPS_PER_S = Unit(lambda value: f"{format_count(_four_digits(value))}/s")
SHARE = Unit(lambda value: f"{value:.1%}")


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table.

    `key` is its name as data ("": it is only shown); a `hidden` one is only data. `at_least` is the key of a column
    whose truth puts ">=" before the value. `becomes` is the key of a column that holds what this one's value changed
    to: "1 -> 2" where they differ.
    """

    key: str
    heading: str = ""
    unit: Unit = TEXT
    at_least: str = ""
    becomes: str = ""
    hidden: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of raw values, one per column; None is "nothing to say". `key` is its name as data ("": only shown)."""

    key: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Any, ...], ...] = ()

    @classmethod
    def of(cls, key: str, columns: Iterable[Column], objects: Iterable[Any]) -> Table:
        """A row per object: its attributes (of a mapping, its items) by the columns' keys."""
        kept = tuple(columns)
        return cls(key, kept, tuple(tuple(_value(item, column.key) for column in kept) for item in objects))

    @property
    def shown(self) -> tuple[Column, ...]:
        """The columns that people see."""
        return tuple(column for column in self.columns if not column.hidden)

    def cells(self) -> list[list[str]]:
        """The rows as people see them: a text per shown column."""
        place = {column.key: i for i, column in enumerate(self.columns) if column.key}

        def text(row: tuple[Any, ...], i: int) -> str:
            value, column = row[i], self.columns[i]
            if value is None:
                return "-"
            least = ">= " if column.at_least and row[place[column.at_least]] else ""
            own = least + column.unit.format(value)
            later = text(row, place[column.becomes]) if column.becomes else own
            return own if later == own else f"{own} -> {later}"

        return [[text(row, i) for i, column in enumerate(self.columns) if not column.hidden] for row in self.rows]


def _value(item: Any, key: str) -> Any:
    return item[key] if isinstance(item, Mapping) else attrgetter(key)(item)


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing a page says: `value` under `key` for programs ("": not for them), `text` beside `label` for people."""

    key: str
    label: str = ""
    value: Any = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture as the bytes of a file of this name."""

    name: str
    media_type: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and what stands under it; `key` is what a link to it is called."""

    key: str
    heading: str = ""
    tables: tuple[Table, ...] = ()
    note: str = ""
    pictures: tuple[Picture, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether it has nothing for people; it may still hold data."""
        return not (self.note or self.pictures or any(table.rows and table.shown for table in self.tables))


@dataclass(frozen=True, slots=True)
class Page:
    """What a report says. `document` names the table that is all of the page as data, where one is."""

    title: str
    facts: tuple[Fact, ...] = ()
    sections: tuple[Section, ...] = ()
    document: str = ""

    @property
    def shown_facts(self) -> tuple[Fact, ...]:
        """The facts that people see."""
        return tuple(fact for fact in self.facts if fact.label and fact.text)

    @property
    def shown_sections(self) -> tuple[Section, ...]:
        """The sections that have something for people."""
        return tuple(section for section in self.sections if not section.is_empty)

    def with_facts(self, *facts: Fact) -> Page:
        """The page with more facts at the end."""
        return replace(self, facts=(*self.facts, *facts))
