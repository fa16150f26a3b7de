"""How tensors are lent to other libraries: changes to the Python side of DLPack."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import has_torch_function_unary
from torch.utils.dlpack import DLDeviceType

from simdevice.torch_backend.patch import Patch, Patches
from simdevice.torch_backend.process import PROCESS

__all__ = ["AT_IMPORT", "PATCHES"]


def _names_the_device(device_of: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """DLPack has a number for devices that it does not list, and PyTorch gives it to a device called "privateuse1": it
    raises "Unknown device type" for one that has taken a name."""

    @functools.wraps(device_of)
    def __dlpack_device__(self: Any) -> Any:
        if self.device.type == "simacc" and not has_torch_function_unary(self):
            return DLDeviceType.kDLExtDev, self.device.index
        return device_of(self)

    return __dlpack_device__


def _opens_to_the_host(export: Callable[..., Any]) -> Callable[..., Any]:
    """PyTorch copies whatever is exported to another device, and device memory is the host's here: an export to the CPU
    shares it, unless a copy is asked for."""

    @functools.wraps(export)
    def __dlpack__(
        self: Any, *, stream: Any = -1, dl_device: Any = None, copy: bool | None = None, **version: Any
    ) -> Any:
        if not (_is_ours(self) and dl_device is not None and dl_device[0] == DLDeviceType.kDLCPU) or copy:
            return export(self, stream=stream, dl_device=dl_device, copy=copy, **version)
        export(self, stream=stream)  # raises where a tensor cannot be exported, or for a stream that is none
        return export(PROCESS.native.host_window(self), copy=copy, **version)

    return __dlpack__


def _shares_its_own(consume: Callable[..., Any]) -> Callable[..., Any]:
    """`torch.from_dlpack` does not ask a tensor's owner for another device, but copies: the CPU's view of a simacc
    tensor would be a copy, and copy=False an error. A capsule's memory is borrowed, in no statistics and without a
    number in traces, so a simacc tensor of a simacc tensor is made without one. And PyTorch takes "simacc" without an
    index for a device that no tensor is on."""

    @functools.wraps(consume)
    def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Any:
        to = torch.device(device) if isinstance(device, (str, torch.device)) else None
        if to is not None and to.type == "simacc" and to.index is None:
            device = to = torch.device("simacc", torch.get_device_module("simacc").current_device())
        if copy or not _is_ours(ext_tensor) or (to is None and device is not None):
            return consume(ext_tensor, device=device, copy=copy)
        if to is not None and to.type == "cpu":
            return consume(ext_tensor.__dlpack__(max_version=(1, 0), dl_device=(DLDeviceType.kDLCPU, 0), copy=copy))
        if to is not None and to != ext_tensor.device:
            return consume(ext_tensor, device=device, copy=copy)
        ext_tensor.__dlpack__(copy=copy)  # raises where a tensor cannot be exported
        return ext_tensor.data

    return from_dlpack


def _is_ours(tensor: Any) -> bool:
    """Whether it is a tensor with memory on simacc; a subclass may have none."""
    return type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.device.type == "simacc"


AT_IMPORT = Patches(
    (
        Patch(torch, "from_dlpack", _shares_its_own),
        Patch(torch.utils.dlpack, "from_dlpack", _shares_its_own),
    )
)
"""A program may bring an array to the device before it has used the device."""

PATCHES = Patches(
    (
        Patch(torch.Tensor, "__dlpack_device__", _names_the_device),
        Patch(torch.Tensor, "__dlpack__", _opens_to_the_host),
    )
)
