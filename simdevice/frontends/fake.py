"""Run a module as if its tensors were on the CPU, without any data."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._pytree import tree_map

__all__ = ["FakeCpu", "fake_cpu"]


class FakeCpu:
    """Makes fake CPU twins of tensors; the same tensor gets the same twin, so tied parameters stay tied."""

    def __init__(self, mode: FakeTensorMode | None = None) -> None:
        self.mode = mode or FakeTensorMode()
        self._twins: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # the original is kept: its id stays its own

    def twin(self, tensor: torch.Tensor) -> torch.Tensor:
        """A fake CPU tensor of the same shape, strides and type."""
        if isinstance(tensor, FakeTensor):
            return tensor
        known = self._twins.get(id(tensor))
        if known is not None:
            return known[1]
        with self.mode:
            twin = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="cpu")
            if isinstance(tensor, torch.nn.Parameter):
                twin = torch.nn.Parameter(twin, requires_grad=tensor.requires_grad)
        self._twins[id(tensor)] = (tensor, twin)
        return twin

    def tree(self, value: Any) -> Any:
        """The value with every tensor in it replaced by its twin."""
        return tree_map(lambda v: self.twin(v) if isinstance(v, torch.Tensor) else v, value)


@contextmanager
def fake_cpu(root: Any, mode: FakeTensorMode | None = None) -> Iterator[FakeCpu]:
    """Inside, fake tensors are on, and a module's parameters, buffers and tensor attributes are twins;
    afterwards the module holds exactly what it held before."""
    fake = FakeCpu(mode)
    undo: list[tuple[dict[str, Any], str, torch.Tensor]] = []
    for module in root.modules() if isinstance(root, torch.nn.Module) else ():
        tables: list[dict[str, Any]] = [module._parameters, module._buffers, module.__dict__]
        for table in tables:
            for name, value in table.items():
                if isinstance(value, torch.Tensor):
                    undo.append((table, name, value))
    for table, name, value in undo:
        table[name] = fake.twin(value)
    logger = logging.getLogger("torch._subclasses.fake_tensor")  # it prints what it also raises
    was_off, logger.disabled = logger.disabled, True
    try:
        with fake.mode:
            yield fake
    finally:
        logger.disabled = was_off
        for table, name, value in undo:
            table[name] = value
