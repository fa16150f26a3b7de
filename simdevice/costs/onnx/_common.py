"""What the ONNX cost rules share: naming operators and inputs. No rule of its own."""

from __future__ import annotations

from simdevice.costs.aten._common import ceil_log2, cost, elements, lookup, unknown
from simdevice.records import Signature, TensorSpec

__all__ = ["ceil_log2", "cost", "elements", "lookup", "microsoft", "named", "onnx", "unknown"]


def onnx(names: str) -> tuple[str, ...]:
    """`"Gemm MatMul"` as ("onnx.Gemm", "onnx.MatMul")."""
    return tuple(f"onnx.{name}" for name in names.split())


def microsoft(names: str) -> tuple[str, ...]:
    """The same in ONNX Runtime's own domain."""
    return tuple(f"com.microsoft.{name}" for name in names.split())


def named(signature: Signature) -> dict[str, TensorSpec]:
    """Inputs by their formal names; needs the attribute "given"."""
    return dict(zip(signature.attribute("given", ()), signature.inputs, strict=False))
