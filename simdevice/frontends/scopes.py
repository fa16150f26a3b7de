"""Where in a program we are: module paths from forward hooks, also for the backward of each module."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable
from types import TracebackType
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

__all__ = ["ModuleScopes"]

_NO_FORWARD_CALL = 2**64 - 1  # what PyTorch gives the nodes that accumulate gradients


class ModuleScopes:
    """The path ("model.layers.0.mlp") of the module that is running, while entered.

    Paths count from the outermost module called first, or from `root`; a second outermost module (a
    loss, say) is named by its class. Hooks exist only while entered, and see only the entering thread.
    `number` turns a path into the caller's index for it, asked once per path.
    """

    def __init__(self, number: Callable[[str], int], root: torch.nn.Module | None = None) -> None:
        self.current = self.outside = number("")
        self._number = number
        self._paths: dict[int, int] = {}
        self._keep: list[torch.nn.Module] = []  # ids of modules stay theirs
        self._stack: list[int] = []
        self._starts: list[int] = []  # autograd sequence number from which ...
        self._values: list[int] = []  # ... nodes belong to this scope
        self._handles: list[Any] = []
        self._taken: dict[str, int] = {}
        if root is not None:
            self._name(root, "")

    def __enter__(self) -> ModuleScopes:
        self._thread = threading.get_ident()
        self._mark()
        self._handles = [
            register_module_forward_pre_hook(self._before),
            register_module_forward_hook(self._after, always_call=True),
        ]
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._stack.clear()
        self.current = self.outside

    @property
    def inside(self) -> bool:
        """Whether some module's forward is running."""
        return bool(self._stack)

    def of_node(self, node: Any) -> int:
        """The scope of the forward call that made this autograd node.

        A node takes the next sequence number of its thread, so the scope in force when the counter
        stood there is its scope. Gradient accumulation has no forward call: outside every module.
        """
        number = node._sequence_nr()
        place = bisect_right(self._starts, number) - 1
        if place < 0 or number == _NO_FORWARD_CALL:
            return self.outside
        return self._values[place]

    def _mark(self) -> None:
        start = torch._C._autograd._get_sequence_nr()
        if self._starts and self._starts[-1] == start:
            self._values[-1] = self.current
        else:
            self._starts.append(start)
            self._values.append(self.current)

    def _before(self, module: torch.nn.Module, args: Any) -> None:
        if threading.get_ident() != self._thread:
            return
        scope = self._paths.get(id(module))
        if scope is None:
            scope = self._discover(module)
        self._stack.append(self.current)
        self.current = scope
        self._mark()

    def _after(self, module: torch.nn.Module, args: Any, output: Any) -> None:
        if threading.get_ident() != self._thread or not self._stack:
            return
        self.current = self._stack.pop()
        self._mark()

    def _discover(self, module: torch.nn.Module) -> int:
        """Name a module that was not reached from a known root."""
        if not self._paths:
            self._name(module, "")
        elif self._stack:  # called by a known module without being registered in it
            self._paths[id(module)] = self.current
            self._keep.append(module)
        else:
            kind = type(module).__name__
            count = self._taken[kind] = self._taken.get(kind, 0) + 1
            self._name(module, kind if count == 1 else f"{kind}_{count}")
        return self._paths[id(module)]

    def _name(self, root: torch.nn.Module, prefix: str) -> None:
        for path, module in root.named_modules(prefix=prefix):
            self._paths.setdefault(id(module), self._number(path))
        self._keep.append(root)
