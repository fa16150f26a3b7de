"""The common device API and the machines behind it."""

from __future__ import annotations

from typing import Any

from simdevice.devices.base import Device, Session
from simdevice.errors import SpecError
from simdevice.hardware import RooflineSpec, load, load_link

__all__ = ["Device", "Session", "get"]


def get(device: str | Device, *, engine: Any = None, fused: bool = False, **overrides: object) -> Device:
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
    if isinstance(spec, RooflineSpec):
        from simdevice.devices.roofline import Roofline

        if engine is not None:
            raise SpecError(
                f"{spec.name} is a roofline, which has no engine; engines go with an accelerator such as 'edge-npu'"
            )
        return Roofline(spec, load_link(spec.link), fused=fused)
    if fused:
        raise SpecError(f"{spec.name} is an accelerator; the fused bound goes with a roofline such as 'h100'")
    from simdevice.devices.accelerator import Accelerator

    return Accelerator(spec, load_link(spec.link), engine=engine)
