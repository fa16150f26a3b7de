"""The Python half of the simacc device for PyTorch. `import torch` calls `autoload` (entry point
`torch.backends`); nothing heavy is imported until the device is first used."""

from __future__ import annotations

import atexit

__all__ = ["autoload"]


def autoload() -> None:
    """Make `torch.device("simacc")` and `torch.simacc` known. Never raises and says nothing, whatever state the build
    is in: a program that does not name the device is as it was without it. The first use says what is wrong."""
    # Late, all of them: `import torch` itself imports this file, so that a torch at the top would be half there.
    import torch
    from torch.utils import backend_registration

    from simdevice.torch_backend import namespace, presence
    from simdevice.torch_backend.build import load_prebuilt
    from simdevice.torch_backend.process import PROCESS, leave

    if torch._C._get_privateuse1_backend_name() == "simacc":
        return
    backend_registration.rename_privateuse1_backend("simacc")
    torch._register_device_module("simacc", namespace)  # type: ignore[no-untyped-call]  # PyTorch has no annotation here
    backend_registration.generate_methods_for_privateuse1_backend(for_storage=True)
    presence.PATCHES.install()
    atexit.register(leave)
    module = load_prebuilt()
    if module is not None:
        PROCESS.loaded_at_import = True
        module.set_initializer(_first_use)  # an event may be recorded before the first tensor is made


def _first_use() -> None:
    # Late: the simulator is loaded when the device is first used.
    from simdevice.torch_backend import bootstrap

    bootstrap.native()
