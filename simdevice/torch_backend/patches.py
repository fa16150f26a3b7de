"""Every change to PyTorch's own classes, in one place: what is replaced, why, and how it is put back.

A patch is a function that gets what stood there and gives what stands there now; its docstring is the reason.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
from torch.multiprocessing.reductions import reduce_tensor

from simdevice.torch_backend import presence, scopes
from simdevice.torch_backend.patch import NOTHING, Patch, Patches
from simdevice.torch_backend.placement import touches_simacc
from simdevice.torch_backend.process import PROCESS

__all__ = ["PATCHES", "Patch", "install", "undo"]


def install() -> None:
    """Apply every patch, those of `presence` too. Once per process, or again after `undo`."""
    presence.PATCHES.install()
    _ours.install()


def undo() -> None:
    """Put back what `install` replaced, last first."""
    _ours.undo()
    presence.PATCHES.undo()


def _marks_weights(moved: Callable[..., Any]) -> Callable[..., Any]:
    """`module.to(device)` replaces `parameter.data` in place, and PyTorch has no hook for that: parameters that it
    brings to simacc would not count as weights."""

    @functools.wraps(moved)
    def _apply(self: Any, fn: Any, *args: Any, **kwargs: Any) -> Any:
        out = moved(self, fn, *args, **kwargs)
        PROCESS.native.mark_weights([p for p in self._parameters.values() if p is not None])
        return out

    return _apply


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
    they are hidden when the first program asks for a compilation."""

    @functools.wraps(init)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        scopes.hide_from_dynamo()
        init(self, *args, **kwargs)

    return __init__


def _sends_by_value(reduce: Any) -> Callable[[Any], Any]:
    """Tensors go to other processes by value, through a CPU tensor: PyTorch's own way shares memory, which the other
    process's device would not know, and hangs where it fails."""

    def by_value(tensor: Any) -> Any:
        if tensor.device.type != "simacc":
            return (reduce_tensor if reduce is NOTHING else reduce)(tensor)
        return _received, (type(tensor), tensor.detach().cpu(), tensor.requires_grad)

    return by_value


def _received(kind: type, on_host: torch.Tensor, requires_grad: bool) -> torch.Tensor:
    tensor = on_host.to("simacc")
    if kind is torch.nn.Parameter:
        return torch.nn.Parameter(tensor, requires_grad)
    return tensor.requires_grad_(requires_grad)


_inductor: Any = torch._TorchCompileInductorWrapper
_reducers: dict[type, Any] = ForkingPickler._extra_reducers  # type: ignore[attr-defined]  # where register() writes

PATCHES = (
    Patch(torch.nn.Module, "_apply", _marks_weights),
    Patch(_inductor, "__call__", _compiles_for_simacc),
    Patch(_inductor, "__init__", _hides_hooks),
    Patch(torch._TorchCompileWrapper, "__init__", _hides_hooks),
    Patch(_reducers, torch.Tensor, _sends_by_value),
    Patch(_reducers, torch.nn.Parameter, _sends_by_value),
)

_ours = Patches(PATCHES)
