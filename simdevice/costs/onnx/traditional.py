"""The domain ai.onnx.ml, classical models on tables of features."""

from __future__ import annotations

from simdevice.costs.onnx._common import elements
from simdevice.costs.registry import register, streamed
from simdevice.records import Cost, Signature

__all__: list[str] = []


def ml(names: str) -> tuple[str, ...]:
    """`"Scaler"` as ("ai.onnx.ml.Scaler",)."""
    return tuple(f"ai.onnx.ml.{name}" for name in names.split())


@register(*ml("Binarizer Imputer"))
def pointwise(signature: Signature) -> Cost:
    """1 per output element."""
    return streamed(signature, "elementwise", elements(signature.outputs))


@register(*ml("Scaler"))
def scale(signature: Signature) -> Cost:
    """(x - offset) * scale."""
    return streamed(signature, "elementwise", 2 * elements(signature.outputs))


@register(*ml("Normalizer"))
def normalise(signature: Signature) -> Cost:
    """A norm of each row, 5 per element."""
    return streamed(signature, "norm", 5 * signature.inputs[0].numel)


@register(*ml("FeatureVectorizer"))
def concatenate(signature: Signature) -> Cost:
    """Features side by side."""
    return streamed(signature, "movement", 0)


@register(*ml("OneHotEncoder"))
def one_hot(signature: Signature) -> Cost:
    """Categories are attributes; ones and zeros are written."""
    return streamed(signature, "creation", 0)


@register(*ml("LinearClassifier LinearRegressor"))
def linear(signature: Signature) -> Cost:
    """Rows of features times coefficients that are attributes: 2 per feature and target, 1 for the intercept."""
    source, scores = signature.inputs[0], signature.outputs[-1]
    rows = source.shape[0] if len(source.shape) > 1 else 1
    targets = scores.numel // max(rows, 1)
    features = source.numel // max(rows, 1)
    return streamed(signature, "matmul", rows * targets * (2 * features + 1))
