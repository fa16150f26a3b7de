"""What a trace says about itself: the device its tensors claim, and which way through a library it shows."""

from __future__ import annotations

import inspect
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np

from simdevice.frontends.attention import said_of
from simdevice.frontends.base import Workload
from simdevice.records import Trace

__all__ = [
    "CACHE_OFF",
    "cache_path",
    "data_notes",
    "device_of",
    "one_line",
    "takes_cache",
    "title",
    "with_path",
    "without_cache_path",
]


def title(workload: Workload) -> str:
    """The workload's name and description."""
    return " ".join(part for part in (workload.name, workload.description) if part)


def device_of(root: Any, *inputs: Any) -> str:
    """The device type the tensors claim: the parameters', else the inputs'."""
    import torch  # here: walking an ONNX file needs no PyTorch
    from torch.utils._pytree import tree_leaves

    parameters = root.parameters() if isinstance(root, torch.nn.Module) else ()
    for value in (*parameters, *tree_leaves(inputs)):
        if isinstance(value, torch.Tensor):
            return value.device.type
    return ""


def with_path(trace: Trace, said: str) -> Trace:
    """The trace with its path: what the workload says of it, and how attention was done."""
    parts = [said] if said else []
    return replace(trace, origin=replace(trace.origin, path=", ".join((*parts, *said_of(trace)))))


_ASKS = ("aten._local_scalar_dense", "aten.equal", "aten.is_nonzero", "aten.allclose")
"""Operators that give the program a number: what it does next may follow from it."""

_SIZED_BY_DATA = (
    "aten.nonzero",
    "aten.masked_select",
    "aten.unique_consecutive",
    "aten.unique_dim",
    "aten._unique2",
    "aten.index",
)
"""Operators whose result is as large as their data say; of indexing, that by a mask."""


def data_notes(trace: Trace) -> tuple[str, ...]:
    """A note where the traced program may have branched on its data."""
    signatures, used = trace.table.signatures, np.unique(trace.rows.signature, return_counts=True)
    calls: Counter[str] = Counter()
    for index, count in zip(*used, strict=True):
        name = signatures[index].name
        if name != "aten.index" or any(t.dtype in ("bool", "uint8") for t in signatures[index].inputs[1:]):
            calls[name] += int(count)
    said = [
        f"{what} ({', '.join(f'{name} x {calls[name]}' for name in names if name in calls)})"
        for what, names in (("read computed numbers", _ASKS), ("has sizes that follow from data", _SIZED_BY_DATA))
        if any(name in calls for name in names)
    ]
    if not said:
        return ()
    return (f"the program {' and '.join(said)}: with other data it may run other operators",)


CACHE_OFF = "key-value cache off"


def cache_path(workload: Workload) -> str:
    """The workload's path; one that says nothing of the cache of a transformers model asked without it says so."""
    config = getattr(workload.program, "config", None)
    if config is None or "cache" in workload.path or not takes_cache(workload):
        return workload.path
    asked = workload.kwargs.get("use_cache")
    is_on = getattr(config, "use_cache", True) if asked is None else asked
    return workload.path if is_on else without_cache_path(workload.path)


def takes_cache(workload: Workload) -> bool:
    """Whether the program is a module that may fill a key-value cache."""
    call = getattr(workload.program, "forward", None)
    return call is not None and "use_cache" in inspect.signature(call).parameters


def without_cache_path(said: str) -> str:
    """A path that says the cache is off, whatever it said of it; its other parts stay."""
    parts = [part for part in said.split(", ") if part and not part.startswith("key-value cache")]
    return ", ".join((CACHE_OFF, *parts))


def one_line(error: BaseException, limit: int = 200) -> str:
    """An error's text on one line, shortened."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= limit else text[: limit - 3] + "..."
