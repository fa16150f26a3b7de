"""Who asks: each front end turns a program into a Trace. Imported only when chosen."""

from __future__ import annotations

from importlib import import_module

from simdevice.errors import SimdeviceError, UnknownNameError
from simdevice.frontends.base import FrontEnd, Workload

__all__ = ["FRONT_ENDS", "FrontEnd", "Workload", "get"]

FRONT_ENDS = {
    "compile": "simdevice.frontends.compile",
    "dispatch": "simdevice.frontends.dispatch",
    "export": "simdevice.frontends.export",
    "onnx": "simdevice.frontends.onnx",
    "operators": "simdevice.frontends.operators",
}
"""Name to module; the module's `trace` is the front end."""


def get(name: str) -> FrontEnd:
    """The front end of this name.

    Raises:
        UnknownNameError: no such front end; says the nearest name. SimdeviceError: what it needs is not installed.
    """
    if name not in FRONT_ENDS:
        raise UnknownNameError("front end", name, FRONT_ENDS)
    try:
        front_end: FrontEnd = import_module(FRONT_ENDS[name]).trace
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("simdevice"):
            raise
        raise SimdeviceError(f"the {name!r} front end needs {error.name}: pip install 'simdevice[all]'") from None
    return front_end
