"""Read "simfront-trace/1", the JSON that Torch_Sim_Frontend writes: one object per operator call.

It holds an element's size but not its type, so types here are the usual one of that size.
"""

from __future__ import annotations

from typing import Any

from simdevice.errors import FileFormatError, SimdeviceError
from simdevice.records.builder import TraceBuilder
from simdevice.records.op import CATEGORIES, Cost, Signature, TensorSpec
from simdevice.records.table import OpTable
from simdevice.records.trace import Origin, Trace

__all__ = ["FORMAT", "unpack"]

FORMAT = "simfront-trace/1"

_DTYPES = {1: "int8", 2: "bfloat16", 4: "float32", 8: "int64", 16: "complex128"}
_CATEGORIES = {"conv": "convolution", "copy": "movement", "pool": "pooling"}
_NOTE = "read from simfront-trace/1, which holds element sizes only: dtypes are guesses, sizes are not"


def unpack(data: dict[str, Any]) -> Trace:
    """The trace in a parsed file, with the costs the file gives.

    Raises:
        FileFormatError: an element size or a category that has no counterpart here.
    """
    builder = TraceBuilder(OpTable(_no_rules))
    indices: dict[tuple[Signature, Cost], int] = {}
    serials: dict[str, int] = {}
    for call in data["ops"]:
        tensors = (*call["inputs"], *call["outputs"])
        signature = Signature(
            call["name"],
            tuple(_spec(t) for t in call["inputs"]),
            tuple(_spec(t) for t in call["outputs"]),
            tuple((key, _plain(value)) for key, value in sorted(call["attrs"].items())),
        )
        key = signature, _cost(call)
        if key not in indices:  # equal signatures with different costs stay apart
            indices[key] = builder.table.append(*key)
        builder.add(indices[key], [serials.setdefault(t["tid"], len(serials)) for t in tensors])
    asked = " ".join(f"{key}={value}" for key, value in data["workload"].items())
    workload = f"{data['model']} {asked}".strip()
    return builder.finish(Origin(data["route"], workload=workload, capture_s=data["capture_s"], notes=(_NOTE,)))


def _spec(tensor: dict[str, Any]) -> TensorSpec:
    size = tensor["itemsize"]
    if size not in _DTYPES:
        raise FileFormatError(f"expected an element size of 1, 2, 4, 8 or 16 bytes, got {size!r}")
    return TensorSpec(tuple(int(n) for n in tensor["shape"]), _DTYPES[size], bool(tensor["param"]))


def _cost(call: dict[str, Any]) -> Cost:
    category = _CATEGORIES.get(call["category"], call["category"])
    if category not in CATEGORIES:
        raise FileFormatError(f"unknown category {call['category']!r} of {call['name']!r}")
    read, written, weights = (int(call[name]) for name in ("bytes_read", "bytes_written", "weight_bytes"))
    if category == "unknown":
        return Cost(category, None, read, written, weights, reason="no cost rule in the program that wrote this file")
    return Cost(category, int(call["flops"]), read, written, weights)


def _plain(value: Any) -> Any:
    """Attributes are hashable: lists become tuples, objects their pairs."""
    if isinstance(value, list):
        return tuple(_plain(v) for v in value)
    if isinstance(value, dict):
        return tuple((key, _plain(v)) for key, v in sorted(value.items()))
    return value


def _no_rules(signature: Signature) -> Cost:
    raise SimdeviceError(f"a loaded trace takes no new operator, got {signature.name!r}")
