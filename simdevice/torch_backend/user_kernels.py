"""Kernels that others register for the device: their operators keep their rows. What they compute is theirs."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch._library.utils import RegistrationHandle

from simdevice.torch_backend.patch import Patch, Patches
from simdevice.torch_backend.process import PROCESS

__all__ = ["AT_IMPORT", "PATCHES", "watch_early"]

_early: list[tuple[weakref.ref[torch.library.Library], str]] = []  # kernels that are older than the device


def watch_early() -> None:
    """At the first use of the device: kernels registered before it, Python's and those of libraries in C++."""
    while _early:
        reference, name = _early.pop()
        if (library := reference()) is not None:
            _watch(library, name)
    PROCESS.native.record_user_kernels()


def _watch(library: torch.library.Library, name: str) -> None:
    """Put a recording kernel over the library's, for as long as the library lives."""
    if number := PROCESS.native.record_user_kernel(name):
        library._registration_handles.append(RegistrationHandle(partial(PROCESS.native.forget_user_kernel, number)))


def _keeps_rows(impl: Callable[..., None]) -> Callable[..., None]:
    """A kernel that somebody registers for simacc takes the place of the device's own, which records: the operator
    would leave the record. It gets a kernel over it that records the call, for as long as the library lives."""

    @functools.wraps(impl)
    def registered(self: Any, op_name: Any, fn: Any, dispatch_key: str = "", **options: Any) -> None:
        impl(self, op_name, fn, dispatch_key, **options)
        computes = self.ns != "_" and fn is not torch.library.fallthrough_kernel
        if computes and (dispatch_key or self.dispatch_key) == "PrivateUse1":
            name = f"{self.ns}::{self._resolve_op_name(op_name, 'impl').split('::')[-1]}"
            if PROCESS.ready:
                _watch(self, name)
            else:
                _early.append((weakref.ref(self), name))

    return registered


def _looks_for_kernels(load: Callable[..., None]) -> Callable[..., None]:
    """A library in C++ registers its kernels without telling anyone: they get their recording kernels once it is
    there."""

    @functools.wraps(load)
    def load_library(self: Any, path: Any) -> None:
        load(self, path)
        PROCESS.native.record_user_kernels()

    return load_library


AT_IMPORT = Patches((Patch(torch.library.Library, "impl", _keeps_rows),))
PATCHES = Patches((Patch(type(torch.ops), "load_library", _looks_for_kernels),))
