"""Import what only an extra installs, or say in one line how to get it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from simdevice.errors import SimdeviceError

__all__ = ["extra"]


def extra(module: str, name: str, purpose: str) -> Any:
    """The module, which `pip install 'simdevice[name]'` brings.

    Raises:
        SimdeviceError: it is not installed; `purpose` says what needs it.
    """
    try:
        return import_module(module)
    except ImportError as error:
        missing = module.partition(".")[0]
        raise SimdeviceError(f"{purpose} needs {missing}: pip install 'simdevice[{name}]'") from error
