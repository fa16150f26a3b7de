"""The domains ai.onnx.ml, classical models on tables of features, and ai.onnx.preview.training, optimizer steps."""

from __future__ import annotations

from simdevice.costs.arithmetic import contraction, elements, movement, norm, optimizer_step
from simdevice.costs.arithmetic.basics import product_of
from simdevice.costs.onnx._common import ml
from simdevice.costs.registry import register, streamed
from simdevice.records import INSIDE, Cost, Extra, Signature

__all__: list[str] = []

register(*ml("Normalizer"))(norm)

register(*ml("FeatureVectorizer"))(movement)


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
    product = product_of(signature, (1, rows, features, targets), 0, INSIDE, len(signature.outputs) - 1)
    return contraction(signature, "matmul", [product], [Extra("intercept", rows * targets)])


_STEPS = {
    # per element: gradient + norm * x (2), then
    "Adagrad": (9, 2),  # h += g*g (2), x -= r * g / (sqrt(h) + eps) (5)
    "Adam": (14, 3),  # v = a*v + (1-a)*g (3), h the same with g*g (4), sqrt and eps (2), x -= r * v / ... (3)
    "Momentum": (7, 2),  # v = a*v + b*g (3), x -= r*v (2)
}
"""FLOPs per element, and how many tensors of a variable's size the step returns."""


@register(*(f"ai.onnx.preview.training.{name}" for name in _STEPS))
def step(signature: Signature) -> Cost:
    """A step of any number of variables; outputs are the variables, then each of their states."""
    per_element, returned = _STEPS[signature.name.rpartition(".")[2]]
    return optimizer_step(signature, per_element, elements(signature.outputs) // returned, signature.outputs)
