"""Element types and their sizes in bits, so that int4 has a size; names are PyTorch's."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from simdevice.errors import UnknownNameError

__all__ = ["BITS", "bits", "is_float", "nbytes", "numel"]

BITS: dict[str, int] = {
    "bfloat16": 16,
    "bit": 1,
    "bool": 8,
    "complex128": 128,
    "complex32": 32,
    "complex64": 64,
    "float16": 16,
    "float32": 32,
    "float4_e2m1fn": 4,
    "float4_e2m1fn_x2": 8,
    "float64": 64,
    "float8_e4m3fn": 8,
    "float8_e4m3fnuz": 8,
    "float8_e5m2": 8,
    "float8_e5m2fnuz": 8,
    "float8_e8m0fnu": 8,
    "int1": 1,
    "int16": 16,
    "int2": 2,
    "int32": 32,
    "int4": 4,
    "int64": 64,
    "int8": 8,
    "qint32": 32,
    "qint8": 8,
    "quint2x4": 2,
    "quint4x2": 4,
    "quint8": 8,
    "string": 64,
    "uint1": 1,
    "uint16": 16,
    "uint2": 2,
    "uint32": 32,
    "uint4": 4,
    "uint64": 64,
    "uint8": 8,
}


def bits(dtype: str) -> int:
    """Bits per element; raises UnknownNameError for a type that is not in the table."""
    try:
        return BITS[dtype]
    except KeyError:
        raise UnknownNameError("dtype", dtype, BITS) from None


def is_float(dtype: str) -> bool:
    """Whether the type is a real or complex floating-point type."""
    return dtype.startswith(("float", "bfloat", "complex"))


def numel(shape: Iterable[int]) -> int:
    """Elements of a shape; a scalar has one."""
    return prod(shape)


def nbytes(shape: Iterable[int], dtype: str) -> int:
    """Bytes of a dense tensor, rounded up to a whole byte."""
    return -(-numel(shape) * bits(dtype) // 8)
