"""What PyTorch's profiler shows: changes to its Python classes, applied with `import torch`, since a program may make
a profiler before it uses the device."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import torch
from torch.autograd.profiler_util import EventList

from simdevice.torch_backend.patch import Patch, Patches

__all__ = ["PATCHES"]


def _asks_for_kernels(init: Callable[..., None]) -> Callable[..., None]:
    """Without `use_kineto`, `torch.autograd.profiler.profile(use_device="simacc")` times operators by a pair of events
    around each, which would be operators of the program themselves; PyTorch prints a back trace per operator where a
    device has none. The newer way tells the same, to the nanosecond, and leaves the program alone."""

    @functools.wraps(init)
    def __init__(self: Any, enabled: bool = True, *, use_device: Any = None, **options: Any) -> None:
        if use_device == "simacc":
            options["use_kineto"] = True
        init(self, enabled, use_device=use_device, **options)

    return __init__


def _knows_the_device(method: Callable[..., Any]) -> Callable[..., Any]:
    """`sort_by="self_cuda_time_total"` works in PyTorch, and so does "privateuse1" in the place of "cuda", but not the
    name that this device has taken, under which its columns are printed."""

    @functools.wraps(method)
    def by_name(self: Any, *args: Any, **kwargs: Any) -> Any:
        return method(self, *map(_generic, args), **{key: _generic(value) for key, value in kwargs.items()})

    return by_name


def _generic(argument: Any) -> Any:
    is_metric = isinstance(argument, str) and re.fullmatch(r"(self_)?simacc_(time|time_total|memory_usage)", argument)
    return argument.replace("simacc", "privateuse1") if is_metric else argument


def _keeps_kernels(remove: Callable[..., Any]) -> Callable[..., Any]:
    """An operator that calls one of its own name and nothing else is one row of a profiler's table. PyTorch then takes
    the inner one's kernels, and loses the outer's; here it is the outer one that launches, and the host's kernel is
    inside."""

    @functools.wraps(remove)
    def _remove_dup_nodes(self: Any) -> Any:
        if self._use_device == "simacc":
            for event in self:  # in order of time: outer before inner
                outer = event.cpu_parent
                if outer is not None and outer.name == event.name and len(outer.cpu_children) == 1:
                    event.kernels = outer.kernels + event.kernels
        return remove(self)

    return _remove_dup_nodes


PATCHES = Patches(
    (
        Patch(torch.autograd.profiler.profile, "__init__", _asks_for_kernels),
        Patch(EventList, "table", _knows_the_device),
        Patch(EventList, "export_stacks", _knows_the_device),
        Patch(EventList, "_remove_dup_nodes", _keeps_kernels),
    )
)
