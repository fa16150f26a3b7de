"""Hugging Face transformers on simacc: `Trainer`, `pipeline(device=0)` and `device_map`. Importing this replaces what
follows, and imports the integrations of accelerate and safetensors, which it stands on; `undo` puts its own back."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from simdevice.integrations import accelerate, safetensors  # noqa: F401
from simdevice.integrations.entry import bindings, framework
from simdevice.torch_backend import namespace as simacc
from simdevice.torch_backend.patch import Patch, Patches

__all__ = ["install", "undo"]


def install() -> None:
    """Let transformers choose simacc. Done on import; again after `undo`."""
    _patches.install()


def undo() -> None:
    """Put transformers back; `simdevice.integrations.accelerate.undo()` puts accelerate back."""
    _patches.undo()


def _trains_on_simacc(devices: Any) -> Any:
    """`Trainer` chooses from a closed chain of devices, with the CPU at its end, after accelerate has chosen already:
    simacc stands before the CPU, unless the CPU was asked for."""

    def _setup_devices(self: Any) -> torch.device:
        chosen: torch.device = devices.func(self)
        if chosen.type != "cpu" or self.use_cpu or self.distributed_state is None:
            return chosen
        device: torch.device = self.distributed_state.device
        if device.type == "simacc":
            self._n_gpu = 1
        return device

    replaced = functools.cached_property(_setup_devices)
    replaced.__set_name__(_arguments.TrainingArguments, "_setup_devices")
    return replaced


def _runs_on_simacc(init: Callable[..., None]) -> Callable[..., None]:
    """A pipeline's device may be an index, 0 if there is none, of the first kind of device in a closed chain: of
    simacc, where the chain would end on the CPU."""

    @functools.wraps(init)
    def __init__(self: Any, model: Any, *args: Any, device: Any = None, **kwargs: Any) -> None:
        init(self, model, *args, device=_of_simacc(model, device), **kwargs)

    return __init__


def _of_simacc(model: Any, device: Any) -> Any:
    """What a pipeline's argument `device` means: 0 and None (of a model that no device_map has placed) are simacc."""
    if device is None and getattr(model, "hf_device_map", None) is None:
        device = 0
    if isinstance(device, int) and device >= 0:
        return torch.device("simacc", device)
    return device


def _saves_generator(save: Callable[..., None]) -> Callable[..., None]:
    """A checkpoint holds the random numbers of a closed list of devices: simacc's go into a file beside them, so that
    dropout goes on where it was."""

    @functools.wraps(save)
    def _save_rng_state(self: Any, output_dir: str) -> None:
        save(self, output_dir)
        if self.args.device.type == "simacc":
            torch.save(simacc.get_rng_state(self.args.device), _beside(output_dir))

    return _save_rng_state


def _loads_generator(load: Callable[..., None]) -> Callable[..., None]:
    """What `_saves_generator` wrote is read back, where the checkpoint has it."""

    @functools.wraps(load)
    def _load_rng_state(self: Any, checkpoint: str | None) -> None:
        load(self, checkpoint)
        if checkpoint is not None and self.args.device.type == "simacc" and _beside(checkpoint).is_file():
            simacc.set_rng_state(torch.load(_beside(checkpoint)), self.args.device)

    return _load_rng_state


def _takes_bf16(supported: Callable[[], bool]) -> Callable[[], bool]:
    """bfloat16 is refused without a device of a closed chain that has it; simacc has it."""

    @functools.wraps(supported)
    def is_torch_bf16_gpu_available() -> bool:
        return True

    return is_torch_bf16_gpu_available


def _beside(checkpoint: str) -> Path:
    return Path(checkpoint) / "rng_state_simacc.pth"


_arguments = framework("transformers.training_args", "transformers")
_trainer = framework("transformers.trainer", "transformers")
_pipelines = framework("transformers.pipelines.base", "transformers")
_patches = Patches(
    (
        Patch(_arguments.TrainingArguments, "_setup_devices", _trains_on_simacc),
        Patch(_pipelines.Pipeline, "__init__", _runs_on_simacc),
        Patch(_trainer.Trainer, "_save_rng_state", _saves_generator),
        Patch(_trainer.Trainer, "_load_rng_state", _loads_generator),
        *bindings(
            ("transformers",),
            "is_torch_bf16_gpu_available",
            _arguments.is_torch_bf16_gpu_available,
            _takes_bf16,
        ),
    )
)
install()
