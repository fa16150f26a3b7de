"""What several commands do: get a trace from whatever the user named, show progress, print."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from simdevice.cli._options import Tracing
from simdevice.errors import SimdeviceError, SpecError
from simdevice.records import Trace
from simdevice.report.page import Page
from simdevice.report.renderers import render, show
from simdevice.workloads.sources import is_trace_file

__all__ = [
    "capture",
    "check_output",
    "console",
    "load_or_capture",
    "print_json",
    "print_page",
    "print_saved",
    "progress",
]

_WIDTH = 140  # of lines where no terminal says how wide it is


def console() -> Console:
    """For results, on standard output."""
    shown = Console()
    return shown if shown.is_terminal else Console(width=_WIDTH)


@contextmanager
def progress(what: str) -> Iterator[None]:
    """A spinner on standard error while something runs; nothing where that is no terminal."""
    shown = Console(stderr=True)
    if not shown.is_terminal:
        yield
        return
    with shown.status(what):
        yield


def print_json(data: Any) -> None:
    """One JSON document on standard output."""
    print(json.dumps(data, indent=2))


def print_page(page: Page, *, as_json: bool, piped: str = "text") -> None:
    """One page on standard output: a document for programs, or what people read; `piped` where that is no terminal."""
    if as_json:
        print(render(page, "json"), end="")
    else:
        show(page, console(), piped=piped)


def print_saved(path: Path) -> None:
    """A line on standard output, whole and as spelt, however long."""
    console().print(f"saved {path}", highlight=False, markup=False, soft_wrap=True)


def check_output(path: Path | None) -> None:
    """Before minutes of work: can a file be made there?

    Raises:
        SpecError: its folder doesn't exist or can't be written to, or it is a folder or a device itself.
    """
    if path is None:
        return
    if path.is_dir():
        raise SpecError(f"cannot write {path}: it is a folder")
    if path.exists() and not path.is_file():  # /dev/null would be replaced
        raise SpecError(f"cannot write {path}: it is no ordinary file")
    if not path.parent.is_dir():
        raise SpecError(f"cannot write {path}: there is no folder {path.parent}")
    try:
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise SpecError(f"cannot write {path}: {(error.strerror or str(error)).lower()}") from None


def capture(model: str, tracing: Tracing) -> Trace:
    """Trace what the user named.

    Raises:
        SimdeviceError: one line, also for what the user's own code raises.
    """
    options = tracing.options()
    with progress(f"tracing {model}"):
        from simdevice.workloads.configurations import quieten
        from simdevice.workloads.tracing import trace

        quieten()
        try:
            return trace(
                model,
                frontend=tracing.frontend,
                scopes=tracing.scopes,
                strict=tracing.strict,
                flop_counter=tracing.flop_counter,
                **options,
            )
        except SimdeviceError:
            raise
        except Exception as error:  # from a model's own code, which can raise anything
            reason = " ".join(str(error).split())
            raise SimdeviceError(f"{model} raised {type(error).__name__} while it was traced: {reason}") from error


def load_or_capture(target: str, tracing: Tracing) -> Trace:
    """A trace file, else what `capture` takes; options for making inputs don't go with a file.

    Raises:
        SimdeviceError: neither, or options that don't fit.
    """
    if is_trace_file(target):
        defaults = vars(Tracing())
        options = [name for name, value in vars(tracing).items() if value not in ([], defaults[name])]
        if options:
            raise SpecError(f"{target} is a trace already: --{options[0].replace('_', '-')} doesn't apply")
        with progress(f"reading {target}"):
            return Trace.load(target)
    return capture(target, tracing)
