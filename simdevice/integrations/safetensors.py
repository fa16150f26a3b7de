"""safetensors files onto simacc: `load_file(path, device="simacc")`, `load_model` and `safe_open`. Importing this
replaces what follows; `undo` puts it back."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from simdevice.integrations.entry import bindings, framework
from simdevice.torch_backend.patch import Patches

__all__ = ["install", "undo"]


def install() -> None:
    """Let safetensors load onto simacc. Done on import; again after `undo`."""
    _patches.install()


def undo() -> None:
    """Put safetensors back."""
    _patches.undo()


class _Moves:
    """An open file whose tensors are read on the CPU and moved when they are asked for."""

    def __init__(self, on_host: Any, device: torch.device) -> None:
        self._file, self._device = on_host, device

    def __enter__(self) -> _Moves:
        self._file.__enter__()
        return self

    def __exit__(self, *exception: Any) -> Any:
        return self._file.__exit__(*exception)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)  # keys, metadata, ...

    def get_tensor(self, name: str) -> torch.Tensor:
        tensor: torch.Tensor = self._file.get_tensor(name)
        return tensor.to(self._device)

    def get_tensors(self) -> dict[str, torch.Tensor]:
        return {name: tensor.to(self._device) for name, tensor in self._file.get_tensors().items()}

    def get_slice(self, name: str) -> Any:
        return _Slice(self._file.get_slice(name), self._device)


class _Slice:
    """A part of a tensor of the file: indexing reads it."""

    def __init__(self, on_host: Any, device: torch.device) -> None:
        self._slice, self._device = on_host, device

    def __getitem__(self, index: Any) -> torch.Tensor:
        part: torch.Tensor = self._slice[index]
        return part.to(self._device)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._slice, name)  # get_shape, get_dtype


def _opens_for_simacc(safe_open: Callable[..., Any]) -> Callable[..., Any]:
    """The names of devices that safetensors reads into are a closed list in its compiled half: a file for simacc is
    read on the CPU, and each tensor moved."""

    @functools.wraps(safe_open, updated=())
    def opened(filename: Any, framework: str, device: Any = "cpu", **options: Any) -> Any:
        if framework in ("pt", "torch", "pytorch") and _is_simacc(device):
            return _Moves(safe_open(filename, framework=framework, device="cpu", **options), torch.device(device))
        return safe_open(filename, framework=framework, device=device, **options)

    return opened


def _is_simacc(device: Any) -> bool:
    """An integer too, which for PyTorch is the accelerator of that index."""
    return isinstance(device, int) or str(device).partition(":")[0] == "simacc"


_safetensors = framework("safetensors.torch", "safetensors")
_patches = Patches(
    bindings(("safetensors", "accelerate", "transformers"), "safe_open", _safetensors.safe_open, _opens_for_simacc)
)
install()
