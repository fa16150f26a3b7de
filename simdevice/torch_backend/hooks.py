"""PyTorch's own hooks that are always on: the optimizer phase, and parameters known as weights where they are made."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

__all__ = ["install", "remove"]

_OPTIMIZER_PHASE = 2

_handles: list[Any] = []


def install(native: Any) -> None:
    """Once per process."""

    def enter_step(optimizer: Any, args: Any, kwargs: Any) -> None:
        if torch.compiler.is_compiling():  # a native call would break Dynamo's graph
            return
        before = native.set_phase(_OPTIMIZER_PHASE)
        optimizer.__dict__.setdefault("_simacc_phase", before)  # there already: its last step raised

    def leave_step(optimizer: Any, args: Any, kwargs: Any) -> None:
        if torch.compiler.is_compiling():
            return
        native.set_phase(optimizer.__dict__.pop("_simacc_phase", 0))

    def registered(module: Any, name: str, parameter: Any) -> None:
        if isinstance(parameter, torch.Tensor) and parameter.device.type == "simacc":
            native.mark_weights([parameter])

    _handles.extend(
        (
            register_optimizer_step_pre_hook(enter_step),
            register_optimizer_step_post_hook(leave_step),
            register_module_parameter_registration_hook(registered),
        )
    )


def remove() -> None:
    """Undo `install`."""
    while _handles:
        _handles.pop().remove()
