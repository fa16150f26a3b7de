"""Hugging Face accelerate on simacc: `Accelerator().device`, `device_map="auto"`, `get_max_memory`, mixed precision,
and the random numbers in `save_state`. Importing this replaces what follows; `undo` puts it back."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from simdevice.integrations.entry import bindings, framework, with_constant
from simdevice.torch_backend import namespace as simacc
from simdevice.torch_backend.patch import Patch, Patches

__all__ = ["install", "undo"]

_FP16 = ("xpu", "cuda", "npu", "xla", "mlu", "musa", "hpu", "sdaa", "mps")
_LIBRARIES = ("accelerate", "transformers")


def install() -> None:
    """Let accelerate choose simacc. Done on import; again after `undo`."""
    _patches.install()


def undo() -> None:
    """Put accelerate back. An `Accelerator` that exists keeps its device."""
    _patches.undo()


def _default_is_simacc(default: property) -> property:
    """accelerate's default device comes from a closed chain of libraries, with the CPU at its end: simacc stands before
    the CPU."""

    def default_device(self: Any) -> torch.device:
        chosen: torch.device = default.fget(self)  # type: ignore[misc]
        return torch.device("simacc", simacc.current_device()) if chosen.type == "cpu" else chosen

    return property(default_device, doc=default.__doc__)


def _counts_simacc(get_max_memory: Callable[..., Any]) -> Callable[..., Any]:
    """The memory of each device, which `device_map="auto"` fills in order, comes from a closed chain too; a device is
    an integer there, which for PyTorch is the accelerator of that index."""

    @functools.wraps(get_max_memory)
    def with_simacc(max_memory: dict[int | str, int | str] | None = None) -> Any:
        here = range(simacc.device_count())
        if max_memory is None:
            return {index: simacc.mem_get_info(index)[0] for index in here} | get_max_memory()
        asked = {index: max_memory[index] for index in here if index in max_memory}
        bytes_of = _modeling.convert_file_size_to_int
        sizes = {index: bytes_of(size) if isinstance(size, str) else size for index, size in asked.items()}
        rest = {name: size for name, size in max_memory.items() if name not in asked}  # it says which it does not know
        return sizes | get_max_memory(rest)

    return with_simacc


def _takes_fp16(init: Callable[..., None]) -> Callable[..., None]:
    """float16 is refused on devices that are not in a list inside the constructor; simacc has autocast and a scaler."""
    return with_constant(init, _FP16, (*_FP16, "simacc"))  # type: ignore[no-any-return]


def _scales_on_simacc(get_grad_scaler: Callable[..., Any]) -> Callable[..., Any]:
    """The scaler of float16 gradients is CUDA's at the end of a closed chain, and CUDA's switches itself off."""

    @functools.wraps(get_grad_scaler)
    def of_simacc(distributed_type: Any = None, **options: Any) -> Any:
        if distributed_type is not None and distributed_type.value != "NO":
            return get_grad_scaler(distributed_type, **options)
        return torch.amp.GradScaler("simacc", **options)

    return of_simacc


def _saves_generators(save: Callable[..., Any]) -> Callable[..., Any]:
    """A checkpoint holds the random numbers of a closed list of devices: simacc's go into a file beside them, so that
    dropout goes on where it was."""

    @functools.wraps(save)
    def save_accelerator_state(output_dir: str, *args: Any, **kwargs: Any) -> Any:
        written = save(output_dir, *args, **kwargs)
        torch.save([generator.get_state() for generator in _generators()], _beside(output_dir))
        return written

    return save_accelerator_state


def _loads_generators(load: Callable[..., Any]) -> Callable[..., Any]:
    """What `_saves_generators` wrote is read back, where the checkpoint has it."""

    @functools.wraps(load)
    def load_accelerator_state(input_dir: str, *args: Any, **kwargs: Any) -> Any:
        read = load(input_dir, *args, **kwargs)
        if _beside(input_dir).is_file():
            for generator, state in zip(_generators(), torch.load(_beside(input_dir)), strict=False):
                generator.set_state(state)
        return read

    return load_accelerator_state


def _generators() -> Any:
    return simacc.default_generators


def _beside(checkpoint: str) -> Path:
    return Path(checkpoint) / "random_states_simacc.pt"


_accelerate = framework("accelerate", "accelerate")
_modeling = _accelerate.utils.modeling
_patches = Patches(
    (
        Patch(_accelerate.state.PartialState, "default_device", _default_is_simacc),
        Patch(_accelerate.Accelerator, "__init__", _takes_fp16),
        *bindings(_LIBRARIES, "get_max_memory", _modeling.get_max_memory, _counts_simacc),
        *bindings(_LIBRARIES, "get_grad_scaler", _modeling.get_grad_scaler, _scales_on_simacc),
        *bindings(
            _LIBRARIES,
            "save_accelerator_state",
            _accelerate.checkpointing.save_accelerator_state,
            _saves_generators,
        ),
        *bindings(
            _LIBRARIES,
            "load_accelerator_state",
            _accelerate.checkpointing.load_accelerator_state,
            _loads_generators,
        ),
    )
)
install()
