"""Compute small constants: shapes, axes, scales, positions. What a runtime folds at load, without the weights."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import NodeProto, helper

from simdevice.frontends.onnx.nodes import attribute, canonical_name
from simdevice.frontends.onnx.values import SMALL, Value

__all__ = ["NEVER_FOLDED", "QUESTIONS", "constant_of", "evaluate", "is_foldable", "of_shape"]

Array = NDArray[Any]

NEVER_FOLDED = frozenset(
    (
        *("com.microsoft.DequantizeLinear", "onnx.Bernoulli", "onnx.DequantizeLinear", "onnx.Multinomial"),
        *("onnx.RandomNormal", "onnx.RandomNormalLike", "onnx.RandomUniform", "onnx.RandomUniformLike"),
    )
)
"""Draws differ at every run; a dequantised weight stays quantised, because kernels take it so."""

QUESTIONS = frozenset(("onnx.Shape", "onnx.Size"))
"""Operators that ask for a shape, and read no element."""


def is_foldable(node: NodeProto, inputs: Sequence[Value | None]) -> bool:
    """Whether a runtime computes this node once, at load."""
    name = canonical_name(node)
    if name in NEVER_FOLDED:
        return False
    if name == "onnx.Dropout" and len(inputs) > 2 and inputs[2] is not None:
        return False
    return all(value is None or value.constant for value in inputs)


def evaluate(node: NodeProto, inputs: Sequence[Value | None], opsets: Mapping[str, int]) -> list[Array] | None:
    """The node's outputs where all its inputs' contents are known and all is small; None where not."""
    arrays: list[Array | None] = []
    for value in inputs:
        if value is not None and (value.data is None or value.is_sequence):
            return None
        arrays.append(None if value is None else value.data)
    if sum(a.size for a in arrays if a is not None) > SMALL:
        return None
    try:
        quick = _QUICK.get(canonical_name(node))
        quick_result = quick(node, *arrays) if quick is not None and all(a is not None for a in arrays) else None
        results = [np.asarray(quick_result)] if quick_result is not None else _reference(node, arrays, opsets)
    except Exception:  # contents are a convenience: what can't be computed is unknown
        return None
    return results if all(isinstance(r, np.ndarray) and r.size <= SMALL for r in results) else None


def _reference(node: NodeProto, arrays: Sequence[Array | None], opsets: Mapping[str, int]) -> list[Any]:
    """ONNX's own reference implementation. It makes what a node asks for, so sizes are checked first."""
    from onnx.reference import ReferenceEvaluator  # it takes a second to import

    if node.op_type in ("ConstantOfShape", "Expand", "Tile") and arrays and _too_large(node, arrays):
        raise MemoryError
    feeds = {name: array for name, array in zip(node.input, arrays, strict=False) if array is not None}
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of numpy about the values, which are not ours
        results: list[Any] = ReferenceEvaluator(node, opsets=dict(opsets)).run(None, feeds)  # type: ignore[assignment]
    return [np.asarray(r) if not isinstance(r, list) else r for r in results]


def _too_large(node: NodeProto, arrays: Sequence[Array | None]) -> bool:
    shape = arrays[-1] if node.op_type != "ConstantOfShape" else arrays[0]
    assert shape is not None
    size = int(np.prod(np.maximum(shape.astype(np.int64), 1)))
    first = arrays[0]
    if node.op_type == "Tile" and first is not None:
        size *= first.size
    return size > SMALL


def _divide(a: Array, b: Array) -> Array | None:
    """ONNX divides integers towards zero; numpy downwards, which differs where a negative quotient isn't whole."""
    if a.dtype.kind in "iu":
        if not np.all(b):
            return None
        with np.errstate(all="ignore"):  # the lowest number by -1 doesn't fit, in a runtime neither
            quotient = np.floor_divide(a, b)
            is_below = ((a < 0) != (b < 0)) & (quotient * b != a)
            return np.asarray(quotient + is_below.astype(a.dtype)).astype(a.dtype)
    with np.errstate(all="ignore"):
        return np.asarray(a / b).astype(a.dtype)


def _cast(node: NodeProto, a: Array) -> Array | None:
    target = helper.tensor_dtype_to_np_dtype(attribute(node, "to"))
    return a.astype(target) if target.kind in "biuf" and a.dtype.kind in "biuf" else None


def _concat(node: NodeProto, *parts: Array) -> Array:
    return np.concatenate(parts, attribute(node, "axis", 1))


def _gather(node: NodeProto, a: Array, indices: Array) -> Array:
    return np.take(a, indices.astype(np.int64), attribute(node, "axis", 0))


def _unsqueeze(node: NodeProto, a: Array, axes: Array | None = None) -> Array:
    """Axes are an attribute up to version 11."""
    chosen = attribute(node, "axes") if axes is None else axes
    return np.expand_dims(a, tuple(int(n) for n in np.atleast_1d(chosen)))


def _squeeze(node: NodeProto, a: Array, axes: Array | None = None) -> Array:
    chosen = attribute(node, "axes") if axes is None else axes
    return np.squeeze(a, None if chosen is None else tuple(int(n) for n in np.atleast_1d(chosen)))


_QUICK: dict[str, Callable[..., Any]] = {
    "onnx.Add": lambda node, a, b: np.add(a, b),
    "onnx.Cast": _cast,
    "onnx.Concat": _concat,
    "onnx.Div": lambda node, a, b: _divide(a, b),
    "onnx.Equal": lambda node, a, b: np.equal(a, b),
    "onnx.Gather": _gather,
    "onnx.Identity": lambda node, a: a,
    "onnx.Mul": lambda node, a, b: np.multiply(a, b),
    "onnx.Squeeze": _squeeze,
    "onnx.Sub": lambda node, a, b: np.subtract(a, b),
    "onnx.Unsqueeze": _unsqueeze,
}
"""The reference implementation takes a millisecond per node; these are most of all shape arithmetic."""


def constant_of(node: NodeProto) -> onnx.TensorProto | None:
    """The tensor that a Constant node holds."""
    for held in node.attribute:
        if held.name == "value":
            tensor: onnx.TensorProto = held.t
            return tensor
        value = helper.get_attribute_value(held)
        kind = next((k for k in _CONSTANTS if held.name in (f"value_{k}", f"value_{k}s")), None)
        if kind is not None:
            return onnx.numpy_helper.from_array(np.array(value, _CONSTANTS[kind]))
    return None


_CONSTANTS: dict[str, Any] = {"float": np.float32, "int": np.int64, "string": object}


def of_shape(node: NodeProto, shape: tuple[int, ...]) -> list[Array]:
    """What Shape and Size answer."""
    if node.op_type == "Size":
        return [np.array(int(np.prod(shape)), np.int64)]
    bounds = {a.name: a.i for a in node.attribute}
    return [np.array(shape[bounds.get("start", 0) : bounds.get("end", len(shape))], np.int64)]
