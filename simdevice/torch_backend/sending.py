"""How tensors and storages go to other processes: changes to how `multiprocessing` pickles them."""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
from torch.multiprocessing.reductions import reduce_storage, reduce_tensor

from simdevice.torch_backend.patch import NOTHING, Patch, Patches

__all__ = ["PATCHES"]


def _sends_by_value(reduce: Any) -> Callable[[Any], Any]:
    """Tensors go to other processes by value, through storages of the CPU: PyTorch's own way shares memory, which the
    other process's device would not know, and hangs where it fails. A storage goes whole and once per message, so that
    views keep their strides, and tensors that share memory share it there."""

    def by_value(tensor: Any) -> Any:
        if tensor.device.type != "simacc":
            return (reduce_tensor if reduce is NOTHING else reduce)(tensor)
        if tensor.requires_grad and not tensor.is_leaf:
            raise RuntimeError("a tensor that autograd follows can't go to another process: send tensor.detach()")
        if tensor.is_nested or tensor.layout is not torch.strided:
            return _received_whole, (tensor.detach().cpu(), tensor.device.index, tensor.requires_grad)
        layout = (tensor.storage_offset(), tuple(tensor.shape), tensor.stride(), tensor.is_conj(), tensor.is_neg())
        parts = (type(tensor), tensor.untyped_storage(), tensor.dtype, layout, tensor.requires_grad)
        return _received, parts

    return by_value


def _sends_bytes(reduce: Any) -> Callable[[Any], Any]:
    """A storage on simacc goes to another process as its bytes: PyTorch's own way shares memory, as for tensors."""

    def by_value(storage: Any) -> Any:
        if storage.device.type != "simacc":
            return (reduce_storage if reduce is NOTHING else reduce)(storage)
        return _received_bytes, (_bytes(storage).cpu(), storage.device.index)

    return by_value


def _bytes(storage: torch.UntypedStorage) -> torch.Tensor:
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)


def _received_bytes(on_host: torch.Tensor, index: int) -> torch.UntypedStorage:
    return on_host.to(torch.device("simacc", index)).untyped_storage()


def _received_whole(on_host: torch.Tensor, index: int, requires_grad: bool) -> torch.Tensor:
    return on_host.to(torch.device("simacc", index)).requires_grad_(requires_grad)


def _received(
    kind: type, storage: torch.UntypedStorage, dtype: torch.dtype, layout: tuple[Any, ...], requires_grad: bool
) -> torch.Tensor:
    offset, shape, strides, conjugate, negative = layout
    tensor = torch.empty(0, dtype=dtype, device=storage.device).set_(storage, offset, shape, strides)
    if conjugate:
        tensor = torch._conj(tensor)
    if negative:
        tensor = torch._neg_view(tensor)
    if kind is torch.nn.Parameter:
        return torch.nn.Parameter(tensor, requires_grad)
    return tensor.requires_grad_(requires_grad)


_reducers: dict[type, Any] = ForkingPickler._extra_reducers  # type: ignore[attr-defined]  # where register() writes

PATCHES = Patches(
    (
        Patch(_reducers, torch.Tensor, _sends_by_value),
        Patch(_reducers, torch.nn.Parameter, _sends_by_value),
        Patch(_reducers, torch.UntypedStorage, _sends_bytes),
    )
)
