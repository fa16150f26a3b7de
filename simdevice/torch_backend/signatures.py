"""From the native half's signatures to records: types, the table's indices, and the attributes that cost rules read."""

from __future__ import annotations

from simdevice.costs import Costs, registered, streamed
from simdevice.records import OpTable, Signature, TensorSpec
from simdevice.torch_backend.process import PROCESS

__all__ = ["DTYPES", "declared_attributes", "follow_rules", "intern", "intern_new"]

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

_COSTS = Costs()

# Types that no kernel computes with: what they occupy.
_STORAGE = {"Bits16": "uint16"}


def declared_attributes(name: str) -> list[str]:
    """The call attributes that an operator's cost rule reads now; the native half asks for each operator."""
    return list(_COSTS.attributes(name))


def follow_rules() -> None:
    """Let rules that were registered since the last look count from here on. Under the process's lock.

    The native half asks about an operator when it first meets it, and again when this has found a new rule. So a rule
    counts for the calls after it at once where its operator had never run, else from the next record(), configure() or
    reading of simulated time on. What an operator recorded before keeps the cost that it had.
    """
    rules = registered()
    if rules == PROCESS.rules:
        return
    names = {n for n in rules.keys() | PROCESS.rules.keys() if rules.get(n) is not PROCESS.rules.get(n)}
    PROCESS.rules = dict(rules)
    PROCESS.native.rules_changed({in_place for name in names for in_place in (name, f"{name}_")})


def intern_new() -> None:
    """Give every native signature that is new since last time its place in the table, and its cost."""
    for name, inputs, outputs, attributes, declared in PROCESS.native.signatures_since(len(PROCESS.indices)):
        signature = Signature(name, _specs(inputs), _specs(outputs), attributes)
        if declared == declared_attributes(name):
            index = intern(PROCESS.table, signature)
        else:
            late = "its cost rule was registered after the call, whose attributes were not kept"
            index = PROCESS.table.append(signature, streamed(signature, "unknown", None, late))
        PROCESS.indices.append(index)


def intern(table: OpTable, signature: Signature) -> int:
    """The signature's index; a place of its own where rules have changed since it was first seen."""
    known = len(table)
    try:
        index = table.intern(signature)
        if index < known and table.costs[index] != (cost := _COSTS(signature)):
            index = table.append(signature, cost)
    except Exception as error:  # a rule that fails must not stop the device: everything later waits for this row
        reason = f"its cost rule raised {type(error).__name__}: {error}"
        index = table.append(signature, streamed(signature, "unknown", None, reason))
    return index


def _dtype(name: str) -> str:
    """A type as records name it; raw bits and sub-byte integers have their storage's size."""
    return DTYPES.get(name) or _STORAGE.get(name, "uint8")


def _specs(tensors: list[tuple[tuple[int, ...], str, bool]]) -> tuple[TensorSpec, ...]:
    return tuple(TensorSpec(shape, _dtype(dtype), weight) for shape, dtype, weight in tensors)
