"""Hooks into PyTorch's Python side: module scopes, weights, the optimizer phase."""

from __future__ import annotations

import functools
import threading
from typing import Any

from simdevice.torch_backend import live

__all__ = ["enter_scopes", "install", "leave_scopes"]

_OPTIMIZER_PHASE = 2

_lock = threading.Lock()
_scopes_wanted = 0
_handles: list[Any] = []
_scope_of_module: dict[Any, int] = {}
_root_names: dict[str, int] = {}


def install(native: Any) -> None:
    """What is always on: the optimizer phase, and parameters known as weights where they are made or moved."""
    import torch
    from torch.nn.modules.module import register_module_parameter_registration_hook
    from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

    def enter_step(optimizer: Any, args: Any, kwargs: Any) -> None:
        optimizer._simacc_phase = native.set_phase(_OPTIMIZER_PHASE)

    def leave_step(optimizer: Any, args: Any, kwargs: Any) -> None:
        native.set_phase(optimizer.__dict__.pop("_simacc_phase", 0))

    register_optimizer_step_pre_hook(enter_step)
    register_optimizer_step_post_hook(leave_step)

    def registered(module: Any, name: str, parameter: Any) -> None:
        if isinstance(parameter, torch.Tensor) and parameter.device.type == "simacc":
            native.mark_weights([parameter])

    register_module_parameter_registration_hook(registered)

    # PyTorch has no hook for `module.to(device)`, which replaces `parameter.data` in place.
    moved = torch.nn.Module._apply

    @functools.wraps(moved)
    def apply_and_mark(self: Any, fn: Any, *args: Any, **kwargs: Any) -> Any:
        out = moved(self, fn, *args, **kwargs)  # type: ignore[no-untyped-call]  # PyTorch has no annotation here
        native.mark_weights([p for p in self._parameters.values() if p is not None])
        return out

    torch.nn.Module._apply = apply_and_mark  # type: ignore[method-assign]
    native.set_scope_table(_scope_of_module, _register)


def enter_scopes() -> None:
    """Install the module hooks for as long as some recording wants scopes."""
    from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

    global _scopes_wanted
    with _lock:
        _scopes_wanted += 1
        if _scopes_wanted == 1:
            native = live.native()
            native.forget_scopes()  # a module that still runs in another thread since the last hooks were removed
            _handles.append(register_module_forward_pre_hook(native.enter_module))
            _handles.append(register_module_forward_hook(native.leave_module, always_call=True))


def leave_scopes() -> None:
    """Remove the hooks with the last recording; module paths are forgotten with them."""
    global _scopes_wanted
    with _lock:
        _scopes_wanted -= 1
        if _scopes_wanted == 0:
            for handle in _handles:
                handle.remove()
            _handles.clear()
            _scope_of_module.clear()
            _root_names.clear()


def _register(module: Any) -> int:
    """First call of a module that no known module contains: name everything below it.

    The first root's path is empty, so its parts have the names of its state dict; further roots are
    told apart by their class.
    """
    with _lock:
        root = "" if not _root_names else type(module).__name__
        seen = _root_names[root] = _root_names.get(root, 0) + 1
        prefix = root if seen == 1 else f"{root}#{seen}"
        for name, part in module.named_modules():
            path = ".".join(p for p in (prefix, name) if p)
            _scope_of_module.setdefault(part, live.scope_number(path))
        live.mark_weights(module)
        return _scope_of_module[module]
