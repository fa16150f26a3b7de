"""Who is told that there is an accelerator. Installing simacc registers a device's name, and for PyTorch an accelerator
is there from then on: it would pin memory, spread a DataParallel over devices and start autograd threads in programs
that never heard of simacc. So PyTorch itself and the frameworks on top of it are told of none, until the program has
named simacc or asked `torch.accelerator`; the program that asks is told the truth."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import torch

from simdevice.torch_backend import build
from simdevice.torch_backend.patch import Patch, Patches
from simdevice.torch_backend.process import PROCESS

__all__ = ["PATCHES", "announced", "ask", "refuse_frameworks"]

# Who asks on a program's behalf and not on its request. Those on top of PyTorch have a file in simdevice.integrations.
_FRAMEWORKS = frozenset(
    {"torch", "functorch", "accelerate", "transformers", "lightning", "lightning_fabric", "pytorch_lightning"}
)
_NONE = "Cannot access accelerator device when none is available."


def ask() -> bool:
    """The program asks for simacc: from now on everybody is told of it, if it can be used. Whether it can."""
    if not PROCESS.announced and build.usable():
        announce()
    return PROCESS.announced


def announce() -> None:
    """Everybody is told of simacc from now on."""
    with PROCESS.lock:
        PROCESS.announced = True
        native = build.loaded()
        if native is not None:
            native.announce(late=not PROCESS.loaded_at_import)
    # What PyTorch remembers having been told.
    torch.get_device_module.cache_clear()
    checkpoint = sys.modules.get("torch.utils.checkpoint")
    if checkpoint is not None and checkpoint.DefaultDeviceType._default_device_type == "cpu":
        checkpoint.DefaultDeviceType._default_device_type = None


def announced() -> bool:
    """Whether the caller's caller is told of simacc; asks for it, where that is the program."""
    return PROCESS.announced or (_asked_by_program(sys._getframe(2)) and ask())


def refuse_frameworks() -> None:
    """Where PyTorch's C++ asks for the device to be loaded: `torch.accelerator` may ask on behalf of PyTorch's own code
    (`parallel_apply`: the current device), which is told what it is told without an accelerator.

    Raises:
        RuntimeError: that.
    """
    frame = sys._getframe(2)
    if not PROCESS.announced and _is_accelerator(frame) and not _asked_by_program(frame):
        raise RuntimeError(_NONE)


def _is_accelerator(frame: Any) -> bool:
    name = str(frame.f_globals.get("__name__"))
    return name == "torch.accelerator" or name.startswith("torch.accelerator.")


def _asked_by_program(frame: Any) -> bool:
    """Whether the code in `frame`, or what called `torch.accelerator` there, is a program's own."""
    while frame.f_back is not None and _is_accelerator(frame):
        frame = frame.f_back
    return str(frame.f_globals.get("__name__")).partition(".")[0] not in _FRAMEWORKS


def _answers_the_program(current: Callable[[], Any]) -> Callable[[], Any]:
    """`torch.accelerator` knows one accelerator as soon as the name simacc is registered; DataLoader, checkpoint,
    fork_rng, Dynamo and distributed ask it too and change what a CPU program does."""

    @functools.wraps(current)
    def _accelerator_getAccelerator() -> Any:
        return current() if announced() else None

    return _accelerator_getAccelerator


def _answers_cpu(current: Callable[..., Any]) -> Callable[..., Any]:
    """The same for the function that PyTorch's `get_device_module`, `torch.distributed` and FSDP choose a default with:
    without an accelerator it says the CPU."""

    @functools.wraps(current)
    def _get_accelerator(*check: bool) -> Any:
        return current(*check) if announced() else torch.device("cpu")

    return _get_accelerator


def _pins_on_request(pin: Callable[..., Any]) -> Callable[..., Any]:
    """`tensor.pin_memory()` asks the accelerator that is registered, in C++: a program without simacc gets what PyTorch
    says without an accelerator, and one with simacc gets it loaded first, compiled if need be."""

    @functools.wraps(pin)
    def pin_memory(self: torch.Tensor, device: Any = None) -> Any:
        if device is None:  # a device that is named is the one asked, simacc or not
            if not PROCESS.announced:
                raise RuntimeError(_NONE)
            # Late: the simulator is loaded when the device is first used.
            from simdevice.torch_backend import bootstrap

            bootstrap.native()
            return pin(self)
        return pin(self, device)

    return pin_memory


PATCHES = Patches(
    (
        Patch(torch._C, "_accelerator_getAccelerator", _answers_the_program),
        Patch(torch._C, "_get_accelerator", _answers_cpu),
        Patch(torch.Tensor, "pin_memory", _pins_on_request),
    )
)
