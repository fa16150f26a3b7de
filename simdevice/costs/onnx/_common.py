"""What the ONNX tables share: naming operators and inputs. No rule of its own."""

from __future__ import annotations

from simdevice.records import Signature, TensorSpec

__all__ = ["microsoft", "ml", "named", "number", "onnx", "places"]


def onnx(names: str) -> tuple[str, ...]:
    """`"Gemm MatMul"` as ("onnx.Gemm", "onnx.MatMul")."""
    return tuple(f"onnx.{name}" for name in names.split())


def microsoft(names: str) -> tuple[str, ...]:
    """The same in ONNX Runtime's own domain."""
    return tuple(f"com.microsoft.{name}" for name in names.split())


def ml(names: str) -> tuple[str, ...]:
    """The same in the domain of classical models."""
    return tuple(f"ai.onnx.ml.{name}" for name in names.split())


def named(signature: Signature) -> dict[str, TensorSpec]:
    """Inputs by their formal names; needs the attribute "given"."""
    return dict(zip(signature.attribute("given", ()), signature.inputs, strict=False))


def places(signature: Signature) -> dict[str, int]:
    """Where each input stands, by its formal name; needs the attribute "given"."""
    return {name: i for i, name in enumerate(signature.attribute("given", ()))}


def number(signature: Signature, name: str) -> int | None:
    """A declared attribute that holds one whole number; None where its contents are unknown."""
    value = signature.attribute(name)
    value = value[0] if isinstance(value, tuple) and len(value) == 1 else value
    return int(value) if isinstance(value, (int, float)) else None
