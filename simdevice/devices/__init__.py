"""The common device API and the machines behind it."""

from simdevice.devices.base import Device, Session

__all__ = ["Device", "Session"]
