"""Hooks into PyTorch's Python side: module scopes, weights, the optimizer phase."""

from __future__ import annotations

import functools
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from simdevice.torch_backend import live

__all__ = ["at_path", "enter_scopes", "hide_from_dynamo", "install", "leave_scopes", "scopes_wanted"]

_OPTIMIZER_PHASE = 2

_lock = threading.Lock()
_scopes_wanted = 0
_handles: list[Any] = []
_scope_of_module: dict[Any, int] = {}
_root_names: dict[str, int] = {}
_hidden = False


def install(native: Any) -> None:
    """What is always on: the optimizer phase, and parameters known as weights where they are made or moved."""
    import torch
    from torch.nn.modules.module import register_module_parameter_registration_hook
    from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

    def enter_step(optimizer: Any, args: Any, kwargs: Any) -> None:
        if torch.compiler.is_compiling():  # a native call would break Dynamo's graph
            return
        before = native.set_phase(_OPTIMIZER_PHASE)
        optimizer.__dict__.setdefault("_simacc_phase", before)  # there already: its last step raised

    def leave_step(optimizer: Any, args: Any, kwargs: Any) -> None:
        if torch.compiler.is_compiling():
            return
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
    _compile_for_simacc()


def _compile_for_simacc() -> None:
    """`torch.compile` without a backend means Inductor, which can't generate code for simacc: what touches the device
    goes to the simacc backend instead. And no graph breaks at the hooks of an open recording."""
    import torch

    inductor: Any = torch._TorchCompileInductorWrapper
    compiled = inductor.__call__

    @functools.wraps(compiled)
    def call(self: Any, model_: Any, inputs_: Any, **patches: Any) -> Any:
        from simdevice.torch_backend import compile_backend

        if compile_backend.touches_simacc(model_, inputs_):
            return compile_backend.simacc(model_, inputs_)
        return compiled(self, model_, inputs_, **patches)

    inductor.__call__ = call
    for wrapper in (inductor, torch._TorchCompileWrapper):
        _before(wrapper, hide_from_dynamo)


def _before(kind: Any, first: Callable[[], None]) -> None:
    """Call `first` when an object of this kind is made."""
    made = kind.__init__

    @functools.wraps(made)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        first()
        made(self, *args, **kwargs)

    kind.__init__ = init


def enter_scopes() -> None:
    """Install the module hooks for as long as some recording wants scopes."""
    from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

    global _scopes_wanted
    with _lock:
        _scopes_wanted += 1
        if _scopes_wanted == 1:
            native = live.native()
            if "torch._dynamo" in sys.modules:
                hide_from_dynamo()
            native.forget_scopes()  # a module that still runs in another thread since the last hooks were removed
            _handles.append(register_module_forward_pre_hook(native.enter_module))
            _handles.append(register_module_forward_hook(native.leave_module, always_call=True))


def hide_from_dynamo() -> None:
    """Let Dynamo look through the hooks of modules, which would break its graphs. Once per process is enough."""
    global _hidden
    import torch

    if not _hidden:
        _hidden = True
        for hook in (live.native().enter_module, live.native().leave_module):
            torch.compiler.substitute_in_graph(hook, skip_signature_check=True)(_nothing)
        # what PyTorch warns of, a second call of a hook for the compiled module itself, is harmless here
        warnings.filterwarnings("ignore", message=".*global hooks on modules.*", category=UserWarning)


def _nothing(*args: Any) -> None:
    return None


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


def scopes_wanted() -> bool:
    """Whether some recording names scopes."""
    return _scopes_wanted > 0


@contextmanager
def at_path(path: str) -> Iterator[None]:
    """Inside, operators have this module path, as compiled graphs know it without running the module."""
    native = live.native()
    with _lock:
        _scope_of_module.setdefault(path, live.scope_number(path))
    native.enter_module(path)
    try:
        yield
    finally:
        native.leave_module()


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
