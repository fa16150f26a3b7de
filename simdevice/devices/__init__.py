"""The common device API and the machines behind it."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from simdevice.devices.base import Device, Session
from simdevice.errors import SpecError
from simdevice.hardware import DeviceSpec, load

__all__ = ["Device", "Session", "get"]

_CLASSES = {
    "accelerator": "Accelerator",
    "null": "NullDevice",
    "offload": "Offload",
    "roofline": "Roofline",
}
"""Each kind of machine is a module here with this class, imported when it is chosen."""


def get(
    device: str | Path | DeviceSpec | Device, *, engine: Any = None, fused: bool = False, **overrides: object
) -> Device:
    """A device by preset name or YAML path (with spec fields overridden by keyword), or as it is.

    `engine` names or is the tile engine of an accelerator; `fused` chooses a roofline's fused bound.

    Raises:
        UnknownNameError: no such preset. SpecError: a bad file, field or combination.
    """
    if isinstance(device, Device):
        if overrides or engine is not None or fused:
            raise SpecError("options go with a device name; a Device object already has its own")
        return device
    spec = load(device, **overrides)
    module = import_module(f"simdevice.devices.{spec.kind}")
    machine: Device = getattr(module, _CLASSES[spec.kind]).of(spec, engine=engine, fused=fused)
    return machine
