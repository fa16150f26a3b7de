"""Who asks: each front end turns a program into a Trace. Imported only when chosen."""

from __future__ import annotations

from importlib import import_module

from simdevice.errors import UnknownNameError
from simdevice.frontends.base import FrontEnd, Workload

__all__ = ["FRONT_ENDS", "FrontEnd", "Workload", "get"]

FRONT_ENDS = {
    "dispatch": "simdevice.frontends.dispatch",
    "export": "simdevice.frontends.export",
}
"""Name to module; the module's `trace` is the front end."""


def get(name: str) -> FrontEnd:
    """The front end of this name; raises UnknownNameError with the nearest name that exists."""
    if name not in FRONT_ENDS:
        raise UnknownNameError("front end", name, FRONT_ENDS)
    front_end: FrontEnd = import_module(FRONT_ENDS[name]).trace
    return front_end
