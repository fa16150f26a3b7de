"""Which device: indices, the current one, and what a device says of itself. A part of `torch.simacc`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from simdevice.torch_backend.process import PROCESS, default_devices

__all__ = [
    "DeviceProperties",
    "can_device_access_peer",
    "current_device",
    "device",
    "device_count",
    "device_of",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "index_of",
    "loaded",
    "set_device",
    "synchronize",
]


def loaded() -> Any:
    """The native half, everything else being there too. Late: the simulator is loaded when the device is first used, so
    that `import torch` stays as quick as it was."""
    from simdevice.torch_backend import bootstrap

    return bootstrap.native()


def device_count() -> int:
    """How many devices there are; before the device is loaded, how many there will be."""
    return default_devices() if PROCESS.native is None else int(PROCESS.native.device_count())


def current_device() -> int:
    """This thread's device; before the device is loaded, the first."""
    return 0 if PROCESS.native is None else int(PROCESS.native.current_device())


def index_of(device: Any) -> int:
    """A device index from None, an int, "simacc", "simacc:0" or a torch.device.

    Raises:
        RuntimeError: an index that no device has. ValueError: a device of another kind.
    """
    if device is None:
        return current_device()
    if not isinstance(device, int):
        device = torch.device(device)
        if device.type != "simacc":
            raise ValueError(f"expected a simacc device, got {str(device)!r}")
        device = current_device() if device.index is None else device.index
    if not 0 <= device < device_count():
        raise RuntimeError(
            f"expected a simacc device index below {device_count()}, got {device}; "
            f"torch.simacc.configure(devices={device + 1}) makes as many"
            if device > 0
            else f"expected a simacc device index from 0, got {device}"
        )
    return int(device)


def set_device(device: Any) -> None:
    """Make a device this thread's own."""
    loaded().exchange_device(index_of(device))


class device:
    """Context manager that selects a device, as torch.cuda.device does."""

    def __init__(self, device: Any) -> None:
        self.idx = index_of(device)

    def __enter__(self) -> None:
        self._before = loaded().exchange_device(self.idx)

    def __exit__(self, *exception: object) -> None:
        loaded().exchange_device(self._before)


class device_of(device):
    """Context manager that selects a tensor's device; one of another kind changes nothing."""

    def __init__(self, obj: torch.Tensor) -> None:
        super().__init__(obj.device.index if obj.device.type == "simacc" else None)


def synchronize(device: Any = None) -> None:
    """Wait for everything submitted: operators submitted later start after it."""
    index = index_of(device)
    if PROCESS.native is not None:  # the profiler of a CPU program asks too
        torch.accelerator.synchronize(torch.device("simacc", index))


def get_device_name(device: Any = None) -> str:
    """The simulated machine's name."""
    index_of(device)
    loaded()
    return str(PROCESS.device.name)


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """(9, 0), as an H100: code asks to learn whether bfloat16, float8 and all operators are there, and they are."""
    index_of(device)
    return 9, 0


@dataclass(frozen=True)
class DeviceProperties:
    """What generic code reads of a device; `spec` is the simulated machine's whole description."""

    name: str
    total_memory: int
    spec: Any
    major: int = 9
    minor: int = 0
    multi_processor_count: int = 1


def get_device_properties(device: Any = None) -> DeviceProperties:
    """The simulated machine's name, memory in bytes, and description."""
    index_of(device)
    loaded()
    machine = PROCESS.device
    return DeviceProperties(machine.name, machine.memory_capacity_bytes, machine.spec)


def can_device_access_peer(device: Any, peer_device: Any) -> bool:
    """Whether the one can copy from the other over the link: any two can."""
    return index_of(device) != index_of(peer_device)
