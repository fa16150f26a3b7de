"""A sample on the CPU and its twin on another device: the same bytes, strides, offsets and sharing of memory."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._pytree import tree_map


class Twins:
    """Copies of one sample's tensors on `device`; tensors that share memory share it there too."""

    def __init__(self, device: str) -> None:
        self.device = device
        self._storages: dict[int, torch.UntypedStorage] = {}
        self._tensors: dict[int, torch.Tensor] = {}
        self._originals: list[torch.Tensor] = []  # what is held keeps its id

    def of(self, tree: Any) -> Any:
        return tree_map(self._leaf, tree)

    def _leaf(self, leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            if id(leaf) not in self._tensors:
                self._originals.append(leaf)
                self._tensors[id(leaf)] = self._tensor(leaf)
            return self._tensors[id(leaf)]
        if isinstance(leaf, torch.device) and leaf.type == "cpu":
            return torch.device(self.device)
        return self.device if isinstance(leaf, str) and leaf == "cpu" else leaf

    def _tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        plain = tensor.detach()
        if plain.layout != torch.strided or plain.is_quantized or plain.is_nested:
            twin = plain.clone() if self.device == "cpu" else plain.to(self.device)
        else:
            twin = torch.empty(0, dtype=plain.dtype, device=self.device).set_(
                self._storage(plain.untyped_storage()), plain.storage_offset(), plain.shape, plain.stride()
            )
            if plain.is_conj():
                twin = torch._conj(twin)
            if plain.is_neg():
                twin = torch._neg_view(twin)
        if isinstance(tensor, torch.nn.Parameter):
            return torch.nn.Parameter(twin, tensor.requires_grad)
        return twin.requires_grad_(tensor.requires_grad)

    def _storage(self, storage: torch.UntypedStorage) -> torch.UntypedStorage:
        known = self._storages.get(storage._cdata)
        if known is None:
            content = torch.empty(0, dtype=torch.uint8).set_(storage)
            copied = content.clone() if self.device == "cpu" else content.to(self.device)
            known = self._storages[storage._cdata] = copied.untyped_storage()
        return known
