"""What Dynamo asks of a device while it traces: its interface, registered once a program compiles."""

from __future__ import annotations

from typing import Any

import torch
from torch._dynamo.device_interface import DeviceInterface, register_interface_for_device

from simdevice.torch_backend import memory, namespace, places

__all__ = ["SimaccInterface", "register"]


class SimaccInterface(DeviceInterface):
    """`torch.simacc` under the names that Dynamo uses. Triton has no code for the device."""

    device = places.device
    Event = torch.Event
    Stream = torch.Stream

    class Worker:
        """What processes that only compile ask."""

        @staticmethod
        def set_device(device: int) -> None:
            places.set_device(device)

        @staticmethod
        def current_device() -> int:
            return places.current_device()

        @staticmethod
        def get_device_properties(device: Any = None) -> places.DeviceProperties:
            return places.get_device_properties(device)

    current_device = staticmethod(places.current_device)
    device_count = staticmethod(places.device_count)
    get_compute_capability = staticmethod(places.get_device_capability)
    memory_allocated = staticmethod(memory.memory_allocated)
    set_device = staticmethod(places.set_device)
    synchronize = staticmethod(places.synchronize)
    current_stream = staticmethod(namespace.current_stream)
    is_available = staticmethod(namespace.is_available)
    set_stream = staticmethod(namespace.set_stream)
    stream = staticmethod(namespace.stream)

    @staticmethod
    def exchange_device(device: int) -> int:
        return int(places.loaded().exchange_device(device))

    @staticmethod
    def maybe_exchange_device(device: int) -> int:
        return int(places.loaded().exchange_device(device))  # -1 changes nothing

    @staticmethod
    def get_raw_stream(device_idx: int) -> int:
        return int(namespace.current_stream(device_idx).stream_id)

    @staticmethod
    def _set_stream_by_id(stream_id: int, device_index: int, device_type: int) -> None:
        stream = torch.Stream(stream_id=stream_id, device_index=device_index, device_type=device_type)
        namespace.set_stream(stream)

    @staticmethod
    def is_bf16_supported(including_emulation: bool = False) -> bool:
        return namespace.is_bf16_supported(including_emulation)


def register() -> None:
    """Tell Dynamo of the device; again, it changes nothing."""
    register_interface_for_device("simacc", SimaccInterface)
    for index in range(places.device_count()):
        register_interface_for_device(f"simacc:{index}", SimaccInterface)
