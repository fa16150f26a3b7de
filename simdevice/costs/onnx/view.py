"""Operators that touch no element: other shapes of the same bytes, questions about a shape, and holding tensors."""

from __future__ import annotations

from simdevice.costs.arithmetic import free
from simdevice.costs.onnx._common import microsoft, onnx
from simdevice.costs.registry import register

__all__: list[str] = []

SHAPES = onnx("BitCast Flatten Identity Reshape Squeeze Unsqueeze")

QUESTIONS = onnx("OptionalHasElement SequenceLength Shape Size")

HOLDERS = onnx("""
    Optional OptionalGetElement SequenceAt SequenceConstruct SequenceEmpty SequenceErase SequenceInsert
""")
"""A sequence or an optional holds tensors; putting one in or taking it out copies nothing."""

register(*SHAPES, *QUESTIONS, *HOLDERS, *microsoft("ExpandDims"))(free)
