"""The Python half of the simacc device for PyTorch. `import torch` calls `autoload` (entry point
`torch.backends`); nothing heavy is imported until the device is first used."""

from __future__ import annotations

import atexit
import warnings
from contextlib import suppress

from simdevice.errors import SpecError

__all__ = ["autoload"]


def autoload() -> None:
    """Make `torch.device("simacc")` and `torch.simacc` known. Never raises and says nothing, whatever state the build
    is in: a program that does not name the device is as it was without it. The first use says what is wrong."""
    # Late, all of them: `import torch` itself imports this file, so that a torch at the top would be half there.
    import torch
    from torch.utils import backend_registration

    from simdevice.torch_backend import namespace, presence
    from simdevice.torch_backend.build import load_prebuilt
    from simdevice.torch_backend.process import PROCESS, default_devices, leave

    if torch._C._get_privateuse1_backend_name() == "simacc":
        return
    backend_registration.rename_privateuse1_backend("simacc")
    torch._register_device_module("simacc", namespace)  # type: ignore[no-untyped-call]  # PyTorch has no annotation here
    backend_registration.generate_methods_for_privateuse1_backend(for_storage=True)
    presence.PATCHES.install()
    _patch()
    atexit.register(leave)
    module = load_prebuilt()
    if module is not None:
        PROCESS.loaded_at_import = True
        module.set_initializer(_first_use)  # an event may be recorded before the first tensor is made
        with suppress(SpecError):  # said at the first use of the device
            module.set_device_count(default_devices())


def _patch() -> None:
    """Apply what a program may call before it uses the device. A PyTorch that has changed there warns, and goes on."""
    try:
        from simdevice.torch_backend import dlpack, profiler_tables, user_kernels

        profiler_tables.PATCHES.install()
        dlpack.AT_IMPORT.install()
        user_kernels.AT_IMPORT.install()
    except Exception as error:  # whatever it is: `import torch` goes on
        warnings.warn(
            f"simacc: this PyTorch is not as expected, torch.profiler may not show it: {error!r}", stacklevel=2
        )


def _first_use() -> None:
    # Late: the simulator is loaded when the device is first used.
    from simdevice.torch_backend import bootstrap

    bootstrap.native()
