"""`nn.DataParallel` over several devices: what PyTorch has for CUDA only, and how its threads are recorded."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.cuda import nccl
from torch.nn.parallel import DataParallel

from simdevice.torch_backend.patch import NOTHING, Patch, Patches
from simdevice.torch_backend.process import PROCESS

__all__ = ["PATCHES"]

_utils: Any = torch._utils  # without types


def _broadcast_coalesced(
    tensors: Sequence[torch.Tensor], devices: Sequence[int], buffer_size: int
) -> list[list[torch.Tensor]]:
    """Copies of all tensors on every device, in few large transfers; on their own device, they themselves."""
    out: list[list[torch.Tensor]] = [[] for _ in devices]
    for part in _utils._take_tensors(tensors, buffer_size):
        flat = _utils._flatten_dense_tensors(part)
        for copies, device in zip(out, map(_simacc, devices), strict=True):
            own = part[0].device == device
            # `.data`: each has a version counter of its own, as without the buffer
            copies.extend(
                t if own else t.data for t in (part if own else _utils._unflatten_dense_tensors(flat.to(device), part))
            )
    return [list(_utils._reorder_tensors_as(copies, tensors)) for copies in out]


def _broadcast(tensor: torch.Tensor, devices: Sequence[int]) -> list[torch.Tensor]:
    return [tensor.to(_simacc(device), non_blocking=True) for device in devices]


def _broadcast_out(tensor: torch.Tensor, out: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return [t.copy_(tensor, non_blocking=True) for t in out]


def _scatter(
    tensor: torch.Tensor,
    devices: Sequence[int],
    chunk_sizes: Sequence[int] | None,
    dim: int,
    streams: Sequence[torch.Stream | None] | None,
) -> list[torch.Tensor]:
    chunks = tensor.chunk(len(devices), dim) if chunk_sizes is None else torch.split(tensor, list(chunk_sizes), dim)
    # streams order nothing here: a device has one queue
    return [chunk.to(_simacc(device), non_blocking=True) for chunk, device in zip(chunks, devices, strict=False)]


def _scatter_out(
    tensor: torch.Tensor, out: Sequence[torch.Tensor], dim: int, streams: Sequence[torch.Stream | None] | None
) -> list[torch.Tensor]:
    chunks = torch.split(tensor, [t.size(dim) for t in out], dim)
    return [t.copy_(chunk, non_blocking=True) for t, chunk in zip(out, chunks, strict=True)]


def _gather(tensors: Sequence[torch.Tensor], dim: int, destination: int | None) -> torch.Tensor:
    first = tensors[0]
    shape = list(first.shape)
    shape[dim] = sum(t.size(dim) for t in tensors)
    device = torch.device("cpu") if destination == -1 else _simacc(destination)
    return _gather_out(tensors, torch.empty(shape, dtype=first.dtype, device=device), dim)


def _gather_out(tensors: Sequence[torch.Tensor], out: torch.Tensor, dim: int) -> torch.Tensor:
    parts = torch.split(out, [t.size(dim) for t in tensors], dim)
    for index, (part, tensor) in enumerate(zip(parts, tensors, strict=True)):
        if part.shape != tensor.shape:
            raise RuntimeError(
                f"Input tensor at index {index} has invalid shape {list(tensor.shape)}, but expected {list(part.shape)}"
            )
        part.copy_(tensor, non_blocking=True)
    return out


def _simacc(index: int | None) -> torch.device:
    return torch.device("simacc") if index is None else torch.device("simacc", index)


def _on_simacc(ours: Callable[..., Any]) -> Callable[[Any], Callable[..., Any]]:
    """PyTorch has these functions where it is built for CUDA, and calls them for any accelerator. They get tensors,
    and indices of devices: where the tensors are on the host, simacc is the accelerator once the program has named
    it."""

    def instead(theirs: Any) -> Callable[..., Any]:
        @functools.wraps(ours)
        def function(tensors: Any, *args: Any) -> Any:
            first = tensors if isinstance(tensors, torch.Tensor) else tensors[0]
            if theirs is NOTHING or first.device.type == "simacc" or (first.device.type == "cpu" and PROCESS.announced):
                return ours(tensors, *args)
            return theirs(tensors, *args)

        return function

    instead.__doc__ = _on_simacc.__doc__
    return instead


def _has_no_nccl(is_available: Callable[..., bool]) -> Callable[..., bool]:
    """PyTorch asks whether NCCL can add up gradients and warns where it was built without; for simacc it can't."""

    @functools.wraps(is_available)
    def asked(tensors: Sequence[torch.Tensor]) -> bool:
        return all(t.device.type != "simacc" for t in tensors) and is_available(tensors)

    return asked


def _records_replicas(apply: Callable[..., Any]) -> Callable[..., Any]:
    """Replicas run in threads of their own, which would record elsewhere than the program that called them; and their
    parameters, which are copies, are weights too."""

    @functools.wraps(apply)
    def parallel_apply(modules: Sequence[torch.nn.Module], *args: Any, **kwargs: Any) -> Any:
        if PROCESS.native is None or len(modules) < 2:
            return apply(modules, *args, **kwargs)
        recorder = PROCESS.native.Recorder.innermost()

        def recorded(module: torch.nn.Module) -> Callable[..., Any]:
            for part in module.modules():
                PROCESS.native.mark_weights(list(getattr(part, "_former_parameters", {}).values()))

            def run(*inputs: Any, **named: Any) -> Any:
                recorder.enter_thread()
                return module(*inputs, **named)

            return run

        return apply([recorded(module) for module in modules], *args, **kwargs)

    return parallel_apply


_OURS = (_broadcast, _broadcast_out, _broadcast_coalesced, _scatter, _scatter_out, _gather, _gather_out)

PATCHES = Patches(
    (
        *(Patch(vars(torch._C), ours.__name__, _on_simacc(ours)) for ours in _OURS),
        Patch(nccl, "is_available", _has_no_nccl),
        Patch(sys.modules[DataParallel.__module__], "parallel_apply", _records_replicas),
        Patch(torch.nn.parallel, "parallel_apply", _records_replicas),
    )
)
