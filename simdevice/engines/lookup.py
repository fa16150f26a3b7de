"""Engines by name. Each is imported when it is chosen, and only then."""

from __future__ import annotations

from importlib import import_module

from simdevice.engines.base import Engine
from simdevice.errors import SimdeviceError, UnknownNameError

__all__ = ["get", "names"]

_CLASSES = {
    "cycle": "CycleEngine",
    "native": "NativeEngine",
    "null": "NullEngine",
    "python": "PythonEngine",
    "simpy": "SimpyEngine",
}

_INSTALL = {
    "native": "the compiled engine is missing (reinstall simdevice with a C++20 compiler, or use engine='python')",
    "simpy": "the simpy package is missing (pip install simpy, or use engine='python')",
}


def names() -> list[str]:
    """Every engine's name."""
    return sorted(_CLASSES)


def get(engine: str | Engine) -> Engine:
    """An engine by name, or the object given.

    Raises:
        UnknownNameError: no engine of that name.
        SimdeviceError: the engine needs something that is not installed; the message says what.
    """
    if not isinstance(engine, str):
        if isinstance(engine, Engine):
            return engine
        raise SimdeviceError(f"expected an engine's name or an object with name, run and start, got {engine!r}")
    if engine not in _CLASSES:
        raise UnknownNameError("engine", engine, _CLASSES)
    try:
        module = import_module(f"simdevice.engines.{engine}")
    except ImportError as error:
        raise SimdeviceError(f"engine {engine!r}: {_INSTALL.get(engine, str(error))}") from error
    found: Engine = getattr(module, _CLASSES[engine])()
    return found
