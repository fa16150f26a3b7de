"""The machine that simacc tensors are timed on, and its clock. The device is loaded before any of this is called,
except `choose`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from simdevice.devices import Device, get
from simdevice.errors import SpecError
from simdevice.torch_backend.operator_totals import OperatorTotal, OperatorTotals
from simdevice.torch_backend.process import PROCESS
from simdevice.torch_backend.session import LiveSession
from simdevice.units import PS_PER_S

__all__ = [
    "add_time",
    "choose",
    "current_device",
    "default_device",
    "operator_totals",
    "pin",
    "totals",
    "use",
]

_DEFAULT_DEVICE = "h100"


def default_device() -> str:
    """What is simulated where nobody says: SIMACC_DEVICE, else "h100"."""
    return os.environ.get("SIMACC_DEVICE", _DEFAULT_DEVICE)


def choose(device: Any = None, *, engine: Any = None, numerics: None = None, **overrides: Any) -> Device:
    """The machine of configure()'s arguments; changes nothing.

    Raises:
        UnknownNameError, SpecError: no such machine, or one that cannot be.
    """
    if numerics is not None:
        raise SpecError(f"numerics={numerics!r} is not available: only None (the host's own arithmetic) is")
    return get(default_device() if device is None else device, engine=engine, **overrides)


def use(chosen: Device, devices: int | None = None, *, operator_totals: bool = False) -> None:
    """Simulate on this machine, on as many of it as there are, or on another number. Time starts again at zero; tensors
    stay. A recording that `follows` is simulated on it from its beginning. `operator_totals` adds up operators too.

    Raises:
        SpecError: a recording is open that does not; or there cannot be as many devices.
    """
    native = PROCESS.native
    devices = int(native.device_count()) if devices is None else devices
    with PROCESS.lock:
        if PROCESS.pinned:
            print(
                f"simacc: configure({chosen.name!r}) changes nothing: --device chose {PROCESS.device.name}",
                file=sys.stderr,
            )
            return
        following = [session for session in PROCESS.open.values() if session is not PROCESS.root]
        if not all(session.follows for session in following):
            raise SpecError("configure() inside a record() block: choose the device before recording")
        _set_devices(chosen, devices)
        for index in range(devices):
            native.set_capacity(index, chosen.memory_capacity_bytes, chosen.name)
        PROCESS.device = chosen
        for session in PROCESS.open.values():
            session.flush()
            session.resolve_events()
            session.finish_capture()
        native.Recorder.root().forget_devices()
        sums = OperatorTotals() if operator_totals else None
        PROCESS.root = LiveSession(native.Recorder.root(), base_ps=0, keep=sums is not None, totals=sums)
        PROCESS.open = {session.recorder.token: session for session in (PROCESS.root, *following)}
        for session in following:
            session.start_again()


def _set_devices(chosen: Device, devices: int) -> None:
    """Let there be so many devices.

    Raises:
        SpecError: the machine is simulated only alone, or tensors live on a device that would go.
    """
    native, before = PROCESS.native, int(PROCESS.native.device_count())
    if devices > 1 and not chosen.goes_with_others:
        raise SpecError(f"{chosen.name} is simulated only alone: its host runs operators; use devices=1")
    for index in range(devices, before):
        if alive := native.memory(index)["live_bytes"]:
            raise SpecError(f"devices={devices}: {alive:,} bytes are alive on simacc:{index}; free its tensors first")
    native.set_device_count(devices)
    if PROCESS.pid in (-1, os.getpid()):  # a forked process has no backward passes on devices at all
        native.follow_devices_in_autograd()


@contextmanager
def pin() -> Iterator[None]:
    """Inside, configure() changes nothing and says so."""
    PROCESS.pinned = True
    try:
        yield
    finally:
        PROCESS.pinned = False


def current_device() -> Device:
    """The machine itself."""
    return PROCESS.device


def totals() -> dict[str, float]:
    """Simulated seconds and operators since the device was configured, outside and inside of record()."""
    with PROCESS.lock:
        return {"time_s": PROCESS.root.frontier_ps() / PS_PER_S, "operators": PROCESS.root.operators}


def operator_totals() -> tuple[OperatorTotal, ...]:
    """Every operator since the device was configured, outside and inside of record(); most time first.

    Raises:
        RuntimeError: nobody asked for them.
    """
    with PROCESS.lock:
        root = PROCESS.root
        if root.totals is None:
            raise RuntimeError("operators are added up on request: torch.simacc.configure(operator_totals=True)")
        root.flush()
        return root.totals.listed(PROCESS.device.run(root.trace()))


def add_time(ps: int) -> None:
    """Let simulated time pass for work that no tape holds: a compiled graph on tensors of another device. Recordings
    that are open don't see it."""
    with PROCESS.lock:
        PROCESS.root.base_ps += ps
