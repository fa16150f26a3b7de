"""What a walk knows of an ONNX value: its type, its storage, whether a runtime folds it, and small contents."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, TypeProto, helper, numpy_helper

from simdevice.frontends.emitter import Known
from simdevice.records import TensorSpec

__all__ = [
    "SMALL",
    "Value",
    "dtype_name",
    "elem_type",
    "number_of",
    "of_array",
    "of_tensor",
    "sequence",
    "shape_of",
    "tensors_of",
    "truth_of",
]

SMALL = 4096
"""Elements up to which contents are kept and computed with: shapes, axes, scales, positions."""

_DTYPES: dict[int, str] = {
    TensorProto.BFLOAT16: "bfloat16",
    TensorProto.BOOL: "bool",
    TensorProto.COMPLEX64: "complex64",
    TensorProto.COMPLEX128: "complex128",
    TensorProto.DOUBLE: "float64",
    TensorProto.FLOAT: "float32",
    TensorProto.FLOAT16: "float16",
    TensorProto.FLOAT4E2M1: "float4_e2m1fn",
    TensorProto.FLOAT8E4M3FN: "float8_e4m3fn",
    TensorProto.FLOAT8E4M3FNUZ: "float8_e4m3fnuz",
    TensorProto.FLOAT8E5M2: "float8_e5m2",
    TensorProto.FLOAT8E5M2FNUZ: "float8_e5m2fnuz",
    TensorProto.INT16: "int16",
    TensorProto.INT32: "int32",
    TensorProto.INT4: "int4",
    TensorProto.INT64: "int64",
    TensorProto.INT8: "int8",
    TensorProto.STRING: "string",
    TensorProto.UINT16: "uint16",
    TensorProto.UINT32: "uint32",
    TensorProto.UINT4: "uint4",
    TensorProto.UINT64: "uint64",
    TensorProto.UINT8: "uint8",
} | {
    # newer than the oldest onnx that works here
    getattr(TensorProto, name): dtype
    for name, dtype in (("FLOAT8E8M0", "float8_e8m0fnu"), ("INT2", "int2"), ("UINT2", "uint2"))
    if hasattr(TensorProto, name)
}

_ELEM_TYPES = {name: number for number, name in _DTYPES.items()}


def dtype_name(elem_type: int) -> str:
    """ONNX's number of an element type as the name used in traces; "" for none."""
    return _DTYPES.get(elem_type, "")


def elem_type(dtype: str) -> int:
    """The other way round; 0 (undefined) for none."""
    return _ELEM_TYPES.get(dtype, TensorProto.UNDEFINED)


@dataclass(slots=True)
class Value:
    """One value of a graph.

    `shape` is None where it could not be resolved; `reason` then says why. `constant`: it follows from
    initializers, constants and shapes alone, so a runtime computes it once, at load. `data` holds the
    contents where they are known and small; that doesn't make a value constant (a given input has
    contents too). A sequence or optional has `items` (None: unknown how many) and no tensor of its own.
    What was dequantised knows the tensor it is `stored` as, with its `scales`, and what is `waiting` to become a row
    when the floats are wanted; a result of a quantised operator (`is_result`) is stored only.
    """

    shape: tuple[int, ...] | None = None
    dtype: str = ""
    storage: int = -1
    is_weight: bool = False
    constant: bool = False
    data: NDArray[Any] | None = None
    items: list[Value] | None = None
    is_sequence: bool = False
    reason: str = ""
    proto: TypeProto | None = field(default=None, repr=False)
    stored: Value | None = field(default=None, repr=False)
    scales: list[Value] = field(default_factory=list, repr=False)
    waiting: Callable[[], None] | None = field(default=None, repr=False)
    is_result: bool = False

    @property
    def resolved(self) -> bool:
        return self.shape is not None and bool(self.dtype)

    @property
    def numel(self) -> int:
        return int(np.prod(self.shape)) if self.shape is not None else 0

    def known(self) -> Known:
        """The tensor as an operator's row needs it."""
        assert self.shape is not None
        return Known(TensorSpec(self.shape, self.dtype, self.is_weight), self.storage)

    def type_proto(self) -> TypeProto:
        """The type as ONNX's shape inference takes it: what is not resolved stays open."""
        if self.is_sequence and self.proto is not None:
            return self.proto
        if self.shape is not None:
            return helper.make_tensor_type_proto(elem_type(self.dtype), self.shape)
        return self.proto or helper.make_tensor_type_proto(elem_type(self.dtype), None)


def shape_of(proto: TypeProto) -> tuple[int, ...] | None:
    """A tensor type's shape when every dimension is a number."""
    if not proto.HasField("tensor_type") or not proto.tensor_type.HasField("shape"):
        return None
    dims = proto.tensor_type.shape.dim
    if all(d.HasField("dim_value") and d.dim_value >= 0 for d in dims):
        return tuple(d.dim_value for d in dims)
    return None


def of_tensor(tensor: onnx.TensorProto, storage: int, *, is_weight: bool) -> Value:
    """An initializer or the value of a Constant; contents only where they are small and in the file."""
    shape = tuple(tensor.dims)
    value = Value(shape, dtype_name(tensor.data_type), storage, is_weight=is_weight, constant=True)
    is_here = tensor.data_location != TensorProto.EXTERNAL
    if is_here and value.numel <= SMALL and _has_contents(tensor):
        value.data = numpy_helper.to_array(tensor)
    return value


def _has_contents(tensor: onnx.TensorProto) -> bool:
    """Whether the numbers are there: a graph without its weights keeps only their types."""
    if 0 in tensor.dims:
        return True
    names = ("float_data", "int32_data", "int64_data", "double_data", "uint64_data", "string_data")
    return bool(tensor.raw_data) or any(len(getattr(tensor, name)) for name in names)


def of_array(array: NDArray[Any], storage: int) -> Value:
    """A given input's contents."""
    name = dtype_name(helper.np_dtype_to_tensor_dtype(array.dtype))
    return Value(tuple(array.shape), name, storage, data=array if array.size <= SMALL else None)


def sequence(items: list[Value] | None, reason: str = "") -> Value:
    """A sequence of these, or of nobody knows how many."""
    return Value(items=items, is_sequence=True, reason=reason or "how many items it holds follows from data")


def tensors_of(value: Value) -> list[Value]:
    """The tensors of a value: itself, or what a sequence holds; itself too where nobody knows that."""
    if value.items is not None:
        return [tensor for item in value.items for tensor in tensors_of(item)]
    return [value]


def truth_of(value: Value | None) -> bool | None:
    """A condition's contents, if known."""
    if value is None or value.data is None or not value.data.size:
        return None
    return bool(value.data.reshape(-1)[0])


def number_of(value: Value | None) -> int | None:
    """A whole number's contents, if known."""
    if value is None or value.data is None or value.data.size != 1:
        return None
    return int(value.data.reshape(-1)[0])
