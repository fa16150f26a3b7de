"""One change to PyTorch's or a framework's own classes: what is replaced, why, and how it is put back."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

__all__ = ["NOTHING", "Patch", "Patches"]

NOTHING = object()  # what stood in a dictionary, or among a class's own attributes, where there was none


@dataclass(frozen=True, slots=True)
class Patch:
    """`place` holds, under `key`, what `replacement` makes out of what was there; a dictionary, or the attributes of a
    class or a module. The replacement's docstring is the reason.

    1. `apply` replaces. 2. `undo` puts back what was there, unless somebody else has replaced it in the meantime:
    theirs calls ours, so both stay.
    """

    place: Any
    key: Any
    replacement: Callable[[Any], Any]

    def apply(self) -> tuple[Any, Any]:
        """What was there before (NOTHING: nothing, or what a class inherits), and what is now."""
        before = self._read()
        inherited = before is NOTHING and not isinstance(self.place, dict)
        after = self.replacement(getattr(self.place, self.key) if inherited else before)
        self._write(after)
        return before, after

    def undo(self, before: Any, after: Any) -> None:
        if self._read() is after:
            self._write(before)

    def _read(self) -> Any:
        attributes = self.place if isinstance(self.place, dict) else self.place.__dict__
        return attributes.get(self.key, NOTHING)

    def _write(self, value: Any) -> None:
        if not isinstance(self.place, dict):
            if value is NOTHING:
                delattr(self.place, self.key)
            else:
                setattr(self.place, self.key, value)
        elif value is NOTHING:
            del self.place[self.key]
        else:
            self.place[self.key] = value


class Patches:
    """Patches that are applied together, and put back together."""

    def __init__(self, patches: Iterable[Patch]) -> None:
        self.patches = tuple(patches)
        self._applied: list[tuple[Patch, Any, Any]] = []

    def install(self) -> None:
        """Apply every patch, or none where one can't be; nothing while they are applied."""
        if self._applied:
            return
        try:
            for patch in self.patches:
                self._applied.append((patch, *patch.apply()))
        except Exception:
            self.undo()
            raise

    def undo(self) -> None:
        """Put back what `install` replaced, last first."""
        while self._applied:
            patch, before, after = self._applied.pop()
            patch.undo(before, after)
