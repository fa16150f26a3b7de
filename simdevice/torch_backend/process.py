"""What the live device keeps once per process. State only: the files that change it say how. Imports nothing heavy,
since `torch.simacc` reads it at `import torch`."""

from __future__ import annotations

import os
import threading
from array import array
from typing import TYPE_CHECKING, Any

from simdevice.errors import SpecError

if TYPE_CHECKING:
    from simdevice.costs import Rule
    from simdevice.devices import Device
    from simdevice.records import OpTable
    from simdevice.torch_backend.profiler import Capture
    from simdevice.torch_backend.session import LiveSession

__all__ = ["PROCESS", "Process", "check_devices", "default_devices", "leave", "scope_number"]

MOST_DEVICES = 16
"""As many as the native half keeps room for (recorder/Ids.h)."""


class Process:
    """1. Before the first use of the device: only `seed`, if one was set, and `announced`. 2. While bootstrap works:
    `native` is there. 3. Afterwards `ready`: kernels are registered, a machine is chosen, and everything else is there.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.ready = False
        self.announced = False  # the program has named simacc or asked for an accelerator: PyTorch may know of it
        self.loaded_at_import = False  # the native half was there when PyTorch was imported
        self.native: Any = None  # the module simdevice._device
        self.pid = -1  # of the process that first used the device: a fork has none of its threads
        self.seed: int | None = None  # torch.manual_seed before the device was loaded: it waits for the generators

        # The machine.
        self.device: Device
        self.pinned = False  # configure() changes nothing: the command line chose

        # Signatures and scopes, in the native half's numbering.
        self.table: OpTable
        self.indices = array("i")  # of a native signature, its index in the table
        self.rules: dict[str, Rule] = {}  # those that the native half was told of
        self.scopes = [""]
        self.scope_numbers = {"": 0}

        # What records: the root and every open recording, by the native recorder's token.
        self.root: LiveSession
        self.open: dict[int, LiveSession] = {}
        self.captures: list[Capture] = []  # of the profiler that runs: of recorders that have got a new machine


PROCESS = Process()


def default_devices() -> int:
    """How many devices there are where nobody says: SIMACC_DEVICES, else 1.

    Raises:
        SpecError: it is no number of devices.
    """
    text = os.environ.get("SIMACC_DEVICES", "1")
    return check_devices(int(text) if text.isdecimal() else text, "SIMACC_DEVICES")


def check_devices(count: object, name: str = "devices") -> int:
    """The number itself.

    Raises:
        SpecError: it is none that a process can have.
    """
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MOST_DEVICES:
        raise SpecError(f"{name}: expected a number from 1 to {MOST_DEVICES}, got {count!r}")
    return count


def leave() -> None:
    """A program's last act may be a backward pass: autograd's threads let go of it before Python finalizes. Registered
    at `import torch`, so that it runs after what programs registered later."""
    if PROCESS.ready and PROCESS.pid == os.getpid():
        PROCESS.native.settle_autograd()


def scope_number(path: str) -> int:
    """The number of a module path; the native tape holds these."""
    with PROCESS.lock:
        number = PROCESS.scope_numbers.get(path)
        if number is None:
            number = PROCESS.scope_numbers[path] = len(PROCESS.scopes)
            PROCESS.scopes.append(path)
        return number
