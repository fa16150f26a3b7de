"""What several commands do: get a trace from whatever the user named, show progress, print."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from simdevice.cli._options import Tracing
from simdevice.errors import FileFormatError, SimdeviceError, SpecError
from simdevice.records import Trace
from simdevice.report.page import Page
from simdevice.report.renderers import render, show

__all__ = [
    "capture",
    "check_output",
    "console",
    "is_trace_file",
    "load_or_capture",
    "parse_dims",
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
    from simdevice import frontends

    frontends.get(tracing.frontend)  # a wrong name should not wait for torch and transformers
    with progress(f"tracing {model}"):
        from simdevice.workloads.configurations import quieten
        from simdevice.workloads.resolve import resolve
        from simdevice.workloads.tracing import trace

        quieten()
        try:
            onnx: dict[str, Any] = {"dims": parse_dims(tracing.dim)} if tracing.dim else {}
            if tracing.shapes != "infer":
                onnx["shapes"] = tracing.shapes
            workload = resolve(
                model, tokens=tracing.tokens, decode=tracing.decode, batch=tracing.batch, dtype=tracing.dtype, onnx=onnx
            )
            return trace(
                workload, fake=tracing.fake, frontend=tracing.frontend, scopes=tracing.scopes, strict=tracing.strict
            )
        except SimdeviceError:
            raise
        except Exception as error:  # from a model's own code, which can raise anything
            reason = " ".join(str(error).split())
            raise SimdeviceError(f"{model} raised {type(error).__name__} while it was traced: {reason}") from error


def parse_dims(texts: list[str]) -> dict[str, Any]:
    """`["batch=1", "image=1x3x224x224"]` as dimensions by name.

    Raises:
        SpecError: no NAME=SIZE, or a size that is no whole number.
    """
    dims: dict[str, Any] = {}
    for text in texts:
        name, equals, size = text.rpartition("=")
        parts = size.split("x")
        if not equals or not name or not all(part.isdecimal() for part in parts):
            raise SpecError(f"expected --dim NAME=SIZE such as --dim batch=1, got {text!r}")
        sizes = tuple(int(part) for part in parts)
        dims[name] = sizes[0] if len(sizes) == 1 else sizes
    return dims


def load_or_capture(target: str, tracing: Tracing) -> Trace:
    """A trace file, else what `capture` takes; options for making inputs don't go with a file.

    Raises:
        SimdeviceError: neither, or options that don't fit.
    """
    if is_trace_file(target):
        defaults = vars(Tracing())
        options = [name for name, value in vars(tracing).items() if value not in (False, [], defaults[name])]
        if options:
            raise SpecError(f"{target} is a trace already: --{options[0]} doesn't apply")
        with progress(f"reading {target}"):
            return Trace.load(target)
    return capture(target, tracing)


def is_trace_file(target: str) -> bool:
    """Whether this is a trace rather than a model; a JSON file says so by its first keys.

    Raises:
        FileFormatError: a JSON file that is neither.
    """
    path = Path(target)
    if path.suffix != ".json":
        return path.suffix == ".npz"
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            head = file.read(4096)
    except OSError as error:
        raise FileFormatError(f"cannot read {path}: {error.strerror}") from None
    if re.search(r'"format"\s*:', head):
        return True
    if re.search(r'"model_type"\s*:', head):
        return False
    raise FileFormatError(f"{path}: expected a trace or a Hugging Face config.json with a 'model_type'")
