"""Quantising, dequantising, and arithmetic on quantised tensors that is no product: 1 FLOP per output element."""

from __future__ import annotations

from simdevice.costs.onnx._common import elements, microsoft, onnx
from simdevice.costs.registry import register, streamed
from simdevice.records import Cost, Signature

__all__: list[str] = []


@register(*onnx("DequantizeLinear QuantizeLinear"), *microsoft("DequantizeLinear QuantizeLinear"))
def convert(signature: Signature) -> Cost:
    """Scale, shift and round are one function of each element."""
    return streamed(signature, "elementwise", elements(signature.outputs))


@register("onnx.DynamicQuantizeLinear")
def dynamic(signature: Signature) -> Cost:
    """Finds the range (1 per input element), then quantises."""
    return streamed(signature, "elementwise", signature.inputs[0].numel + elements(signature.outputs[:1]))


@register(*microsoft("QLinearAdd QLinearLeakyRelu QLinearMul QLinearSigmoid QLinearWhere"))
def pointwise(signature: Signature) -> Cost:
    """Operands, scales and zero points are read; requantising belongs to the function."""
    return streamed(signature, "elementwise", elements(signature.outputs))


@register(*microsoft("QLinearAveragePool QLinearGlobalAveragePool"))
def pooling(signature: Signature) -> Cost:
    """1 per input element."""
    return streamed(signature, "pooling", signature.inputs[0].numel)


@register(*microsoft("QLinearReduceMean ReduceSumInteger"))
def reduction(signature: Signature) -> Cost:
    """1 per input element."""
    return streamed(signature, "reduction", signature.inputs[0].numel)


@register("com.microsoft.QLinearSoftmax")
def softmax(signature: Signature) -> Cost:
    """5 per input element."""
    return streamed(signature, "softmax", 5 * signature.inputs[0].numel)


@register("com.microsoft.QLinearConcat")
def concat(signature: Signature) -> Cost:
    """A copy that requantises each element."""
    return streamed(signature, "elementwise", elements(signature.outputs))
