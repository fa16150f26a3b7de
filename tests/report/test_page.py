"""A page with names nobody uses, in every renderer: they know the noun, and no field of any report."""

from __future__ import annotations

import ast
import json
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from simdevice.errors import UnknownNameError
from simdevice.report import renderers
from simdevice.report.page import (
    BYTES,
    COUNT,
    FLOPS,
    NUMBER,
    SECONDS,
    SHARE,
    TEXT,
    Column,
    Fact,
    Page,
    Picture,
    Section,
    Table,
)
from simdevice.report.renderers import RENDERERS, render, show, terminal
from simdevice.report.renderers.json import data

WOMBATS = Table(
    "wombats",
    (
        Column("zorb", "Zorb", TEXT),
        Column("quux.old", "Quux", COUNT, becomes="quux.new"),
        Column("quux.new", unit=COUNT, hidden=True),
        Column("frob", "Frob", FLOPS, at_least="is_vague"),
        Column("is_vague", hidden=True),
        Column("", "Mark"),
    ),
    (("a|b", 1000, 1000, 1234567, True, "*"), ("c", 1, 2, 0, False, None)),
)
PAGE = Page(
    "On wombats",
    (Fact("burrow", "Burrow", 0.125, "an eighth"), Fact("", "Only seen", text="x"), Fact("depth.m", value=3)),
    (
        Section("w", "All wombats", (WOMBATS,), note="None was harmed."),
        Section("none", "Nothing to see", (Table("gone", (Column("zorb", "Zorb"),)),)),
        Section("p", "Portrait", pictures=(Picture("wombat.png", "image/png", b"\x89P"),)),
    ),
)


def test_text_is_aligned_and_leaves_out_what_has_nothing_to_say() -> None:
    assert render(PAGE, "text") == (
        "On wombats\n"
        "\n"
        "Burrow     an eighth\n"
        "Only seen  x\n"
        "\n"
        "All wombats\n"
        "  Zorb    Quux        Frob  Mark\n"
        "  a|b    1,000  >= 1.235 M  *\n"
        "  c     1 -> 2           0  -\n"
        "None was harmed.\n"
        "\n"
        "Portrait\n"
        "picture wombat.png (image/png)\n"
    )


def test_markdown_is_githubs() -> None:
    assert render(PAGE, "markdown") == (
        "# On wombats\n"
        "\n"
        "- Burrow: an eighth\n"
        "- Only seen: x\n"
        "\n"
        "## All wombats\n"
        "\n"
        "| Zorb | Quux | Frob | Mark |\n"
        "| --- | ---: | ---: | --- |\n"
        "| a\\|b | 1,000 | >= 1.235 M | * |\n"
        "| c | 1 -> 2 | 0 | - |\n"
        "\n"
        "None was harmed.\n"
        "\n"
        "## Portrait\n"
        "\n"
        "![wombat.png](wombat.png)\n"
    )


def test_json_has_raw_values_and_tables_that_are_not_shown() -> None:
    assert json.loads(render(PAGE, "json")) == {
        "burrow": 0.125,
        "depth": {"m": 3},
        "wombats": [
            {"zorb": "a|b", "quux": {"old": 1000, "new": 1000}, "frob": 1234567, "is_vague": True},
            {"zorb": "c", "quux": {"old": 1, "new": 2}, "frob": 0, "is_vague": False},
        ],
        "gone": [],
        "pictures": [{"name": "wombat.png", "media_type": "image/png", "base64": "iVA="}],
    }


def test_a_terminal_gets_the_same() -> None:
    lines = [" ".join(line.split()) for line in render(PAGE, "terminal").splitlines()]
    assert [line for line in lines if line and "─" not in line] == [
        "On wombats",
        "Burrow an eighth",
        "Only seen x",
        "All wombats",
        "Zorb Quux Frob Mark",
        "a|b 1,000 >= 1.235 M *",
        "c 1 -> 2 0 -",
        "None was harmed.",
        "Portrait",
        "picture wombat.png (image/png)",
    ]


@pytest.mark.parametrize("width", range(8, 60))
def test_no_terminal_is_too_narrow_for_a_number(width: int) -> None:
    table = Table(
        "",
        (Column("", "a rather long heading"), *(Column("", f"n{i}", COUNT) for i in range(3))),
        (("t" * 20, 1, 2, 3),),
    )
    page = Page("", sections=(Section("", "", (table, WOMBATS)),))
    lines = terminal.render(page, width).splitlines()
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    assert "…" not in text
    if width >= len("Frob: >= 1.235 M"):
        assert ">= 1.235 M" in text
    assert text.count("1,000") == 1


def test_a_table_that_does_not_fit_becomes_a_list_of_its_rows() -> None:
    page = Page("", sections=(Section("", "All", (WOMBATS,)),))
    assert terminal.render(page, terminal.narrowest(WOMBATS) - 1).splitlines() == [
        *("", "All", "", "Zorb: a|b", "Quux: 1,000", "Frob: >= 1.235 M", "Mark: *"),
        *("", "Zorb: c", "Quux: 1 -> 2", "Frob: 0", "Mark: -"),
    ]
    assert "Zorb: c" not in terminal.render(page, terminal.narrowest(WOMBATS))


def test_a_pipe_gets_text_and_a_terminal_its_width() -> None:
    piped, shown = StringIO(), StringIO()
    show(PAGE, Console(file=piped, width=20))
    assert piped.getvalue() == render(PAGE, "text")
    show(PAGE, Console(file=(marked := StringIO())), piped="markdown")
    assert marked.getvalue() == render(PAGE, "markdown")
    show(PAGE, Console(file=shown, width=20, force_terminal=True, color_system=None))
    assert "Zorb: c" in shown.getvalue()


def test_names_are_no_markup_and_no_more_than_one_line() -> None:
    table = Table("", (Column("", "[bold]"),), (("[/]\nnext",),))
    page = Page("[red]", (Fact("", "[i]", text="[b]"),), (Section("", "[u]", (table,), note="[s]"),))
    for name in ("text", "terminal"):
        assert [line.strip() for line in render(page, name).splitlines() if line.strip(" ─")] == [
            *("[red]", "[i]  [b]", "[u]", "[bold]", "[/] next", "[s]")
        ]


def test_a_page_may_be_one_table_as_data() -> None:
    page = Page("t", (Fact("left_out", value=1),), (Section("", "", (WOMBATS,)),), document="wombats")
    assert [row["zorb"] for row in data(page)] == ["a|b", "c"]


def test_values_are_shown_by_their_unit() -> None:
    shown = [
        *((TEXT, "two\nlines", "two lines"), (COUNT, 1234567, "1,234,567"), (NUMBER, 1234.56, "1,235")),
        *((NUMBER, 2.0, "2"), (NUMBER, 1234567, "1,234,567"), (SECONDS, 1.23456e-6, "1.235 us")),
        *((BYTES, 15_026_626_560, "15.03 GB"), (FLOPS, 999, "999"), (SHARE, 0.1234, "12.3%")),
    ]
    assert [unit.format(value) for unit, value, _ in shown] == [text for *_, text in shown]


def test_rows_are_read_off_objects_and_mappings() -> None:
    columns = (Column("real"), Column("imag", hidden=True))
    assert Table.of("k", columns, [1 + 2j]).rows == ((1.0, 2.0),)
    assert Table.of("k", columns, [{"real": 3, "imag": 4, "more": 5}]).rows == ((3, 4),)


def test_another_renderer_is_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match=r"^unknown renderer 'markdwn': did you mean 'markdown'\?$"):
        render(PAGE, "markdwn")


FOLDER = Path(renderers.__file__).parent


def test_every_renderer_is_a_file_and_every_file_a_renderer() -> None:
    assert tuple(sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "__init__")) == RENDERERS


@pytest.mark.parametrize("name", RENDERERS)
def test_a_renderer_imports_the_page_noun_and_nothing_else_of_ours(name: str) -> None:
    tree = ast.parse((FOLDER / f"{name}.py").read_text())
    modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    modules |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert {module for module in modules if module and module.startswith("simdevice")} == {"simdevice.report.page"}
