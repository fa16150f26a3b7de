"""The one exception family; every message says what was expected, what came and what to do."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Iterable, Mapping, Sequence

__all__ = [
    "CaptureError",
    "FileFormatError",
    "LoweringError",
    "OpenDimensionsError",
    "SimdeviceError",
    "SizeError",
    "SpecError",
    "UncostedOperatorError",
    "UnitError",
    "UnknownNameError",
    "nearest",
]


class SimdeviceError(Exception):
    """Base of everything this package raises on purpose; its text is one line fit for a user."""


class UnknownNameError(SimdeviceError, LookupError):
    """A name that is not in a table; says the nearest name that is."""

    def __init__(self, kind: str, name: str, valid: Iterable[str]) -> None:
        self.kind, self.name, self.valid = kind, name, sorted(valid)
        super().__init__(f"unknown {kind} {name!r}{nearest(name, self.valid)}")


class SpecError(SimdeviceError, ValueError):
    """A hardware description that cannot be: names the file, the key and what was expected."""


class UnitError(SpecError):
    """A quantity whose unit or number cannot be read."""


class FileFormatError(SimdeviceError, ValueError):
    """A file that is damaged or of another kind: names the file and what is wrong with it."""


class CaptureError(SimdeviceError):
    """A program that a front end can't follow; says what to try instead."""


class OpenDimensionsError(CaptureError):
    """Sizes that a program leaves open and nobody gave; `examples` has one for each. Says the command that binds them
    all: the user's own, where the command line knows it."""

    def __init__(self, program: str, examples: Mapping[str, str]) -> None:
        self.program, self.examples = program, dict(examples)
        super().__init__(self.with_command(["simacc", "trace", program]))

    def with_command(self, command: Sequence[str]) -> str:
        """The message, for somebody who ran this command."""
        flags = [part for name, size in self.examples.items() for part in ("--dim", f"{name}={size}")]
        open_ = f"{len(self.examples)} dimension{'s are' if len(self.examples) > 1 else ' is'} open"
        sizes = "sizes are examples" if len(self.examples) > 1 else "size is an example"
        return f"{self.program}: {open_} (the {sizes}): {shlex.join([*command, *flags])}"


class SizeError(SimdeviceError, ValueError, OverflowError):
    """A number beyond 2^63 - 1, which columns, files and engines don't hold: shapes that can't be meant."""


class LoweringError(SimdeviceError, ValueError):
    """An operator that cannot be cut into tiles for this machine."""


class UncostedOperatorError(SimdeviceError):
    """An operator without a cost rule where `strict=True` asked for one."""


def nearest(name: str, valid: Iterable[str]) -> str:
    """The tail of an unknown-name message: the closest valid name, or all of them when few."""
    names = sorted(valid)
    close = difflib.get_close_matches(name, names, n=1)
    if close:
        return f": did you mean {close[0]!r}?"
    if not names:
        return ": none is known"
    shown = ", ".join(names[:12]) + (f", ... ({len(names)} in all)" if len(names) > 12 else "")
    return f": expected one of {shown}"
