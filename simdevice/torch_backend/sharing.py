"""Sending simacc tensors between processes: by value, through a CPU tensor. PyTorch's own way shares memory, which the
other process's device would not know, and hangs where it fails."""

from __future__ import annotations

from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
from torch.multiprocessing.reductions import reduce_tensor

__all__ = ["install"]


def install() -> None:
    """Let queues, pipes and DataLoader workers take simacc tensors."""
    for kind in (torch.Tensor, torch.nn.Parameter):
        ForkingPickler.register(kind, _reduce)


def _reduce(tensor: Any) -> Any:
    if tensor.device.type != "simacc":
        return reduce_tensor(tensor)  # type: ignore[no-untyped-call]  # PyTorch has no annotation here
    return _rebuild, (type(tensor), tensor.detach().cpu(), tensor.requires_grad)


def _rebuild(kind: type, on_host: torch.Tensor, requires_grad: bool) -> torch.Tensor:
    made = on_host.to("simacc")
    if kind is torch.nn.Parameter:
        return torch.nn.Parameter(made, requires_grad)
    return made.requires_grad_(requires_grad)
