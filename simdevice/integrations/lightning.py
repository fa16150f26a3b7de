"""Lightning on simacc: `Trainer(accelerator="simacc")` and `Fabric(accelerator="simacc")`, for `import lightning` and
for `import pytorch_lightning`. Importing this registers the accelerator; `undo` takes it back."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Sequence
from typing import Any

import torch

from simdevice.integrations.entry import framework, with_constant
from simdevice.torch_backend import namespace as simacc
from simdevice.torch_backend.patch import Patch, Patches

__all__ = ["install", "undo"]

_NAME = "simacc"


def install() -> None:
    """Register the accelerator. Done on import; again after `undo`."""
    for registry, accelerator in _registered:
        if _NAME not in registry:
            registry.register(_NAME, accelerator, description="A simulated accelerator under PyTorch")
    _patches.install()


def undo() -> None:
    """Take the accelerator out of Lightning's registries, and put its classes back."""
    _patches.undo()
    for registry, _ in _registered:
        registry.pop(_NAME, None)


def _accelerator(base: Any) -> type:
    """What Lightning asks of an accelerator, as a class of its own kind."""

    class SimaccAccelerator(base):  # type: ignore[misc]
        """One simulated device: Lightning's strategies for several need `torch.distributed`."""

        def setup_device(self, device: torch.device) -> None:
            if device.type != _NAME:
                raise ValueError(f"expected a simacc device, got {device}")
            simacc.set_device(device)

        def teardown(self) -> None:
            """Nothing is cached."""

        def get_device_stats(self, device: Any) -> dict[str, Any]:
            """Bytes live and at peak, and counts, for DeviceStatsMonitor."""
            return simacc.memory_stats(device)

        @staticmethod
        def parse_devices(devices: Any) -> list[int]:
            """The argument `devices`: 1, "1", a list of one index.

            Raises:
                ValueError: several, or none.
            """
            indices = [devices] if isinstance(devices, (int, str)) else devices
            if isinstance(devices, (int, str)) and str(devices) in ("1", "-1"):  # a count, as with other accelerators
                indices = [0]
            elif isinstance(devices, str) and devices.rstrip(",").isdigit() and devices.endswith(","):
                indices = [int(devices.rstrip(","))]
            elif not isinstance(devices, Sequence) or isinstance(devices, str) or len(devices) != 1:
                raise ValueError(f"expected one simacc device (devices=1, or [index]), got {devices!r}")
            return [int(index) for index in indices]

        @staticmethod
        def get_parallel_devices(devices: list[int]) -> list[torch.device]:
            return [torch.device(_NAME, index) for index in devices]

        @staticmethod
        def auto_device_count() -> int:
            return 1

        @staticmethod
        def is_available() -> bool:
            return simacc.is_available()

        @staticmethod
        def name() -> str:
            return _NAME

    return SimaccAccelerator


def _is_simacc(connector: Any) -> bool:
    accelerator = getattr(connector, "accelerator", None)
    return accelerator is not None and type(accelerator).__name__ == "SimaccAccelerator"


def _places_on_simacc(strategy_of: Any) -> Callable[[Any], Callable[..., Any]]:
    def _chooses_one_device(choose: Callable[..., Any]) -> Callable[..., Any]:
        """The strategy for one device is told "cpu" for every accelerator that is not in a closed list, so that a
        registered one trains on the CPU without a word."""

        @functools.wraps(choose)
        def _choose_strategy(self: Any) -> Any:
            if _is_simacc(self) and self._num_nodes_flag == 1:
                return strategy_of(device=self._parallel_devices[0])
            return choose(self)

        return _choose_strategy

    return _chooses_one_device


def _casts_on_simacc(check: Callable[..., Any]) -> Callable[..., Any]:
    """Mixed precision is CUDA's for every accelerator that is not in a list inside a method: autocast and the gradient
    scaler would be those of a device that is not there."""
    extended = with_constant(check, ("cpu", "mps"), ("cpu", "mps", _NAME))

    @functools.wraps(check)
    def _check_and_init_precision(self: Any) -> Any:
        if _is_simacc(self):
            self._accelerator_flag = _NAME  # an object, where the caller passed one
        return extended(self)

    return _check_and_init_precision


def _flavour(fabric: str, trainer: str) -> tuple[list[tuple[Any, type]], list[Patch]]:
    """Registries with their class, and patches, of one of the two names that Lightning is installed under."""
    accelerators = framework(f"{fabric}.accelerators", "lightning")
    trainers = framework(f"{trainer}.accelerators", "lightning")
    connectors = (
        (framework(f"{fabric}.connector", "lightning")._Connector, framework(f"{fabric}.strategies", "lightning")),
        (
            framework(f"{trainer}.trainer.connectors.accelerator_connector", "lightning")._AcceleratorConnector,
            framework(f"{trainer}.strategies", "lightning"),
        ),
    )
    patches = []
    for connector, strategies in connectors:
        patches.append(Patch(connector, "_choose_strategy", _places_on_simacc(strategies.SingleDeviceStrategy)))
        patches.append(Patch(connector, "_check_and_init_precision", _casts_on_simacc))
    accelerator = _accelerator(trainers.Accelerator)  # Lightning's own is a Fabric's too
    return [(accelerators.ACCELERATOR_REGISTRY, accelerator), (trainers.AcceleratorRegistry, accelerator)], patches


_flavours = [_flavour("lightning_fabric", "pytorch_lightning")]
if importlib.util.find_spec("lightning") is not None:
    _flavours.append(_flavour("lightning.fabric", "lightning.pytorch"))
_registered = [pair for registered, _ in _flavours for pair in registered]
_patches = Patches(patch for _, patches in _flavours for patch in patches)
install()
