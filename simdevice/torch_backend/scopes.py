"""Module scopes: which module an operator ran in, told by PyTorch's global module hooks while a recording wants it."""

from __future__ import annotations

import re
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from simdevice.torch_backend.process import PROCESS, scope_number

__all__ = ["at_path", "enter_scopes", "hide_from_dynamo", "leave_scopes", "mark_weights", "prepare", "scopes_wanted"]

_lock = threading.Lock()
_scopes_wanted = 0
_handles: list[Any] = []
_scope_of_module: dict[Any, int] = {}
_root_names: dict[str, int] = {}
_hidden = False

# What PyTorch warns of, a second call of a hook for the compiled module itself, is harmless here. It stands among the
# filters only while the hooks do, and is put there by hand: warnings.filterwarnings() would make every module forget
# which warnings it has shown, at each recording.
_EXTRA_CALL: Any = ("ignore", re.compile(".*global hooks on modules.*", re.IGNORECASE), UserWarning, None, 0)


def prepare(native: Any) -> None:
    """Tell the hooks, which are native, where the scopes of modules are. Once per process."""
    native.set_scope_table(_scope_of_module, _register)


def enter_scopes() -> None:
    """Install the module hooks for as long as some recording wants scopes."""
    global _scopes_wanted
    with _lock:
        _scopes_wanted += 1
        if _scopes_wanted == 1:
            native = PROCESS.native
            if "torch._dynamo" in sys.modules:
                hide_from_dynamo()
            native.forget_scopes()  # a module that still runs in another thread since the last hooks were removed
            _handles.append(register_module_forward_pre_hook(native.enter_module))
            _handles.append(register_module_forward_hook(native.leave_module, always_call=True))
            _filters().insert(0, _EXTRA_CALL)


def leave_scopes() -> None:
    """Remove the hooks with the last recording; module paths are forgotten with them."""
    global _scopes_wanted
    with _lock:
        _scopes_wanted -= 1
        if _scopes_wanted == 0:
            for handle in _handles:
                handle.remove()
            with suppress(ValueError):  # the program has replaced the filters since
                _filters().remove(_EXTRA_CALL)
            _handles.clear()
            _scope_of_module.clear()
            _root_names.clear()


def _filters() -> list[Any]:
    return warnings.filters  # type: ignore[return-value]  # a list, by its documentation


def scopes_wanted() -> bool:
    """Whether some recording names scopes."""
    return _scopes_wanted > 0


def hide_from_dynamo() -> None:
    """Let Dynamo look through the hooks of modules, which would break its graphs. Once per process is enough."""
    global _hidden
    if not _hidden:
        _hidden = True
        for hook in (PROCESS.native.enter_module, PROCESS.native.leave_module):
            torch.compiler.substitute_in_graph(hook, skip_signature_check=True)(_nothing)


def _nothing(*args: Any) -> None:
    return None


@contextmanager
def at_path(path: str) -> Iterator[None]:
    """Inside, operators have this module path, as compiled graphs know it without running the module."""
    native = PROCESS.native
    with _lock:
        _scope_of_module.setdefault(path, scope_number(path))
    native.enter_module(path)
    try:
        yield
    finally:
        native.leave_module()


def mark_weights(module: torch.nn.Module) -> None:
    """Count the storages of a module's parameters as weights in everything recorded from now on."""
    PROCESS.native.mark_weights([p for p in module.parameters() if p.device.type == "simacc"])


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
            _scope_of_module.setdefault(part, scope_number(path))
        mark_weights(module)
        return _scope_of_module[module]
