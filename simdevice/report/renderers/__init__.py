"""A Page as text, each kind in a file of its own, found by its name. A renderer knows the page noun and no report.

1. `render(page)` gives the whole page as one string that ends in a newline.
2. It leaves out what has nothing to say: `Page.shown_facts`, `Page.shown_sections`, `Table.shown`.
3. It formats no value: `Table.cells` and `Fact.text` are what people see, raw values are for programs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from simdevice.errors import UnknownNameError
from simdevice.report.page import Page

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["RENDERERS", "render", "show"]

RENDERERS = ("json", "markdown", "terminal", "text")


def render(page: Page, name: str) -> str:
    """The page by the renderer of that name.

    Raises:
        UnknownNameError: no such renderer.
    """
    if name not in RENDERERS:
        raise UnknownNameError("renderer", name, RENDERERS)
    module: Any = import_module(f"{__name__}.{name}")
    text: str = module.render(page)
    return text


def show(page: Page, console: Console | None = None, *, piped: str = "text") -> None:
    """Print the page, by default on standard output: for a terminal's width and colours, into a pipe as `piped` has it.

    Raises:
        UnknownNameError: no renderer is called that.
    """
    from rich.console import Console

    from simdevice.report.renderers import terminal

    console = console or Console()
    if console.is_terminal or console.is_jupyter:
        terminal.show(page, console)
        return
    console.file.write(render(page, piped))
    console.file.flush()
