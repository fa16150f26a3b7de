"""The device's first use: load the native half, choose a machine, register kernels, hook into PyTorch."""

from __future__ import annotations

import os
from typing import Any

from simdevice.costs import Costs, registered
from simdevice.records import OpTable
from simdevice.torch_backend import build, hooks, machine, patches, presence, profiler, scopes, user_kernels
from simdevice.torch_backend.process import PROCESS, default_devices
from simdevice.torch_backend.session import event_ps, root_is_full
from simdevice.torch_backend.signatures import declared_attributes

__all__ = ["native"]


def native() -> Any:
    """The native half: loaded (and compiled, if need be) and its kernels registered, on first use.

    Raises:
        BuildError: it is not there and cannot be compiled.
        UnknownNameError, SpecError: SIMACC_DEVICE names no machine, or SIMACC_DEVICES is no number of them.
    """
    if not PROCESS.ready:
        with PROCESS.lock:  # another thread waits here until the kernels are there
            if PROCESS.native is None:  # it is there already where a callback comes from _first_use itself
                _first_use()
    return PROCESS.native


def _first_use() -> None:
    chosen = machine.choose()  # first: a wrong SIMACC_DEVICE is said again at the next use
    devices = default_devices()
    module = PROCESS.native = build.load()
    presence.announce()
    module.set_initializer(native)
    PROCESS.table, PROCESS.rules = OpTable(Costs()), dict(registered())
    machine.use(chosen, devices)
    module.set_callbacks(root_is_full, event_ps, declared_attributes)
    module.set_timed_profile(profiler.timed_profile)
    module.initialize()
    if PROCESS.seed is not None:
        for index in range(module.device_count()):
            module.default_generator(index).manual_seed(PROCESS.seed)
    hooks.install(module)
    scopes.prepare(module)
    patches.install()
    PROCESS.pid = os.getpid()
    user_kernels.watch_early()
    PROCESS.ready = True
