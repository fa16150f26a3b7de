"""From the native half's signatures to records: types, the table's indices, and the attributes that cost rules read."""

from __future__ import annotations

from simdevice.costs import registered, streamed
from simdevice.records import Signature, TensorSpec
from simdevice.torch_backend.process import PROCESS

__all__ = ["DTYPES", "declared_attributes", "intern_new"]

# ScalarType names as C++ prints them.
DTYPES = {
    "BFloat16": "bfloat16",
    "Bool": "bool",
    "Byte": "uint8",
    "Char": "int8",
    "ComplexDouble": "complex128",
    "ComplexFloat": "complex64",
    "ComplexHalf": "complex32",
    "Double": "float64",
    "Float": "float32",
    "Float4_e2m1fn_x2": "float4_e2m1fn_x2",
    "Float8_e4m3fn": "float8_e4m3fn",
    "Float8_e4m3fnuz": "float8_e4m3fnuz",
    "Float8_e5m2": "float8_e5m2",
    "Float8_e5m2fnuz": "float8_e5m2fnuz",
    "Float8_e8m0fnu": "float8_e8m0fnu",
    "Half": "float16",
    "Int": "int32",
    "Long": "int64",
    "Short": "int16",
    "UInt16": "uint16",
    "UInt32": "uint32",
    "UInt64": "uint64",
}


# Types that no kernel computes with: what they occupy.
_STORAGE = {"Bits16": "uint16"}


def declared_attributes() -> list[tuple[str, list[str]]]:
    """Call attributes that cost rules read, by operator; an in-place operator has its base's."""
    rules = registered()
    declared = {name: list(rule.attributes) for name, rule in rules.items() if rule.attributes}
    declared |= {f"{name}_": attributes for name, attributes in declared.items() if f"{name}_" not in rules}
    return sorted(declared.items())


def intern_new() -> None:
    """Give every native signature that is new since last time its place in the table, and its cost."""
    table = PROCESS.table
    for name, inputs, outputs, attributes in PROCESS.native.signatures_since(len(PROCESS.indices)):
        signature = Signature(name, _specs(inputs), _specs(outputs), attributes)
        try:
            index = table.intern(signature)
        except Exception as error:  # a rule that fails must not stop the device: everything later waits for this row
            reason = f"its cost rule raised {type(error).__name__}: {error}"
            index = table.append(signature, streamed(signature, "unknown", None, reason))
        PROCESS.indices.append(index)


def _dtype(name: str) -> str:
    """A type as records name it; raw bits and sub-byte integers have their storage's size."""
    return DTYPES.get(name) or _STORAGE.get(name, "uint8")


def _specs(tensors: list[tuple[tuple[int, ...], str, bool]]) -> tuple[TensorSpec, ...]:
    return tuple(TensorSpec(shape, _dtype(dtype), weight) for shape, dtype, weight in tensors)
