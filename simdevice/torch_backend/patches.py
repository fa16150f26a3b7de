"""Every change to PyTorch's own classes: those of programs' own calls here, the others in the files of their duty.

A patch is a function that gets what stood there and gives what stands there now; its docstring is the reason.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch.nn.attention.flex_attention import flex_attention

from simdevice.torch_backend import dlpack, presence, profiler_tables, replicas, scopes, sending, user_kernels
from simdevice.torch_backend.patch import Patch, Patches
from simdevice.torch_backend.placement import touches_simacc
from simdevice.torch_backend.process import PROCESS

__all__ = ["ALL", "install", "undo"]


def install() -> None:
    """Apply every patch that does not stand. At the first use of the device, or again after `undo`."""
    for patches in ALL:
        patches.install()


def undo() -> None:
    """Put back what stood there before simacc, last first."""
    for patches in reversed(ALL):
        patches.undo()


def _marks_weights(moved: Callable[..., Any]) -> Callable[..., Any]:
    """`module.to(device)` replaces `parameter.data` in place, and PyTorch has no hook for that: parameters that it
    brings to simacc would not count as weights."""

    @functools.wraps(moved)
    def _apply(self: Any, fn: Any, *args: Any, **kwargs: Any) -> Any:
        out = moved(self, fn, *args, **kwargs)
        PROCESS.native.mark_weights([p for p in self._parameters.values() if p is not None])
        return out

    return _apply


def _tells_backward_threads(set_number: Callable[[int], None]) -> Callable[[int], None]:
    """PyTorch sets the number of threads for the caller and for threads that start later. A backward pass on simacc has
    a thread of its own, which would keep its number and sum in another order than the CPU, whose pass runs in the
    caller's."""

    @functools.wraps(set_number)
    def set_num_threads(*args: Any, **kwargs: Any) -> None:
        set_number(*args, **kwargs)
        PROCESS.native.threads_set()

    return set_num_threads


def _compiles_for_simacc(compiled: Callable[..., Any]) -> Callable[..., Any]:
    """`torch.compile` without a backend means Inductor, which can't generate code for simacc: what touches the device
    goes to the simacc backend instead."""

    @functools.wraps(compiled)
    def __call__(self: Any, model_: Any, inputs_: Any, **patches: Any) -> Any:
        if touches_simacc(model_, inputs_):
            # Late: it brings Dynamo and AOTAutograd, which only programs that compile load.
            from simdevice.torch_backend import compile_backend

            return compile_backend.simacc(model_, inputs_)
        return compiled(self, model_, inputs_, **patches)

    return __call__


def _hides_hooks(init: Callable[..., None]) -> Callable[..., None]:
    """Dynamo may be loaded while a recording's module hooks are installed already, and would break its graphs at them:
    they are hidden when the first program asks for a compilation, and Dynamo is told of the device."""

    @functools.wraps(init)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        from simdevice.torch_backend import dynamo  # late: it brings Dynamo, which only programs that compile load

        scopes.hide_from_dynamo()
        dynamo.register()
        init(self, *args, **kwargs)

    return __init__


def _allows_flex_attention(validate: Callable[..., None]) -> Callable[..., None]:
    """PyTorch has flex_attention on a closed list of device types. On simacc it is the CPU's: no gradients."""

    @functools.wraps(validate)
    def _validate_device(query: Any, key: Any, value: Any) -> None:
        if query.device.type != "simacc":
            validate(query, key, value)
        elif query.requires_grad or key.requires_grad or value.requires_grad:
            raise NotImplementedError(
                "flex_attention on simacc is the CPU's kernel, which has no backward: give it tensors that need no "
                "gradient, or use scaled_dot_product_attention"
            )

    return _validate_device


_flex: Any = sys.modules[flex_attention.__module__]
_inductor: Any = torch._TorchCompileInductorWrapper

ALL = (
    presence.PATCHES,
    profiler_tables.PATCHES,
    dlpack.AT_IMPORT,
    dlpack.PATCHES,
    sending.PATCHES,
    replicas.PATCHES,
    user_kernels.AT_IMPORT,
    user_kernels.PATCHES,
    Patches(
        (
            Patch(torch.nn.Module, "_apply", _marks_weights),
            Patch(torch, "set_num_threads", _tells_backward_threads),
            Patch(_inductor, "__call__", _compiles_for_simacc),
            Patch(_inductor, "__init__", _hides_hooks),
            Patch(torch._TorchCompileWrapper, "__init__", _hides_hooks),
            Patch(_flex, "_validate_device", _allows_flex_attention),
        )
    ),
)
