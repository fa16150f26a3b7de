"""Serial numbers for storages: views share one, a reused address never does. Holds no data alive."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Any

import torch

__all__ = ["UNTRACKED", "StorageIds", "padded_shape"]

UNTRACKED = (-1, False)
"""Of a tensor without a storage (sparse, opaque)."""


def padded_shape(nested: torch.Tensor) -> tuple[int, ...]:
    """The shape of the dense tensor that a strided nested one fits into: what cost rules can read."""
    sizes = nested._nested_tensor_size()
    return (len(sizes), *sizes.amax(0).tolist()) if len(sizes) else (0,)


class StorageIds:
    """Maps a storage to (serial, is a weight).

    A weak reference is kept per storage: its bytes are freed as usual, but the address of its header
    can't be given to another storage while this object lives. Lifecycle: 1. construct; 2. `weights`
    for the parameters; 3. `of` per tensor; 4. `close`.
    """

    def __init__(self) -> None:
        self.known: dict[int, tuple[int, bool]] = {}
        self._weak: list[int] = []

    def __len__(self) -> int:
        return len(self._weak)

    def __enter__(self) -> StorageIds:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def weights(self, parameters: Iterable[torch.Tensor]) -> None:
        """Mark these tensors' storages as weights."""
        for parameter in parameters:
            self._remember(parameter, is_weight=True)

    def of(self, tensor: torch.Tensor) -> tuple[int, bool]:
        """The tensor's serial and whether it is a weight; an unseen `nn.Parameter` is one."""
        try:
            known = self.known.get(tensor.untyped_storage()._cdata)
        except (NotImplementedError, RuntimeError):
            return UNTRACKED
        return known or self._remember(tensor, isinstance(tensor, torch.nn.Parameter))

    def _remember(self, tensor: torch.Tensor, is_weight: bool) -> tuple[int, bool]:
        try:
            storage: Any = tensor.untyped_storage()
        except (NotImplementedError, RuntimeError):
            return UNTRACKED
        serial = len(self._weak) if storage._cdata not in self.known else self.known[storage._cdata][0]
        if serial == len(self._weak):
            self._weak.append(storage._weak_ref())
        entry = self.known[storage._cdata] = (serial, is_weight)
        return entry

    def close(self) -> None:
        """Let the addresses go; serials already given stay valid as numbers."""
        for reference in self._weak:
            torch.UntypedStorage._free_weak_ref(reference)  # type: ignore[no-untyped-call]  # torch's own
        self._weak.clear()
        self.known.clear()
