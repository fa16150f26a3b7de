"""Rules for what the device itself adds to a trace: host-link transfers, synchronisation, events."""

from __future__ import annotations

from simdevice.costs.registry import register
from simdevice.records import Cost, Signature

__all__ = ["EVENT_ROWS", "SYNCHRONIZE", "copy_between_devices", "copy_to_device", "copy_to_host", "sync"]

SYNCHRONIZE = "simacc.synchronize"
EVENT_ROWS = ("simacc.record_event", "simacc.wait_event", "simacc.synchronize_event")


@register("simacc.copy_to_device")
def copy_to_device(signature: Signature) -> Cost:
    """Host to device: the link carries the destination's bytes, which device memory then holds."""
    (target,) = signature.outputs
    return Cost("transfer", 0, bytes_read=0, bytes_written=target.nbytes)


@register("simacc.copy_to_host")
def copy_to_host(signature: Signature) -> Cost:
    """Device to host: device memory is read, the link carries it."""
    (source,) = signature.inputs
    return Cost("transfer", 0, bytes_read=source.nbytes, bytes_written=0)


@register("simacc.copy_between_devices", attributes=("to_device",))
def copy_between_devices(signature: Signature) -> Cost:
    """One device to another: the link carries the source's elements once, in the type that they have there."""
    (source,) = signature.inputs
    return Cost("transfer", 0, bytes_read=source.nbytes, bytes_written=0)


@register(SYNCHRONIZE, *EVENT_ROWS)
def sync(signature: Signature) -> Cost:
    """Rows that order time and do no work."""
    return Cost("sync", 0, bytes_read=0, bytes_written=0)
