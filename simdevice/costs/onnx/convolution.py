"""Convolutions: 2 FLOPs per multiply-add, and 1 per output element for a bias."""

from __future__ import annotations

from math import prod

from simdevice.costs.onnx._common import microsoft
from simdevice.costs.registry import register, streamed
from simdevice.records import Cost, Signature, TensorSpec

__all__: list[str] = []


def _convolution(signature: Signature, weight: TensorSpec, extra: int, more: int = 0) -> Cost:
    """Each output element meets the weight's trailing dimensions, C_in/groups * kernel (channels first or last)."""
    outputs = signature.outputs[0].numel
    return streamed(signature, "convolution", outputs * (2 * prod(weight.shape[1:]) + extra) + more)


@register("onnx.Conv", "com.microsoft.NhwcConv", attributes=("group",))
def convolution(signature: Signature) -> Cost:
    """X, W, perhaps a bias."""
    return _convolution(signature, signature.inputs[1], int(len(signature.inputs) > 2))


@register("onnx.ConvInteger", attributes=("group",))
def integer_convolution(signature: Signature) -> Cost:
    """X, W, perhaps zero points: no bias."""
    return _convolution(signature, signature.inputs[1], 0)


@register("onnx.QLinearConv", "com.microsoft.QLinearConv", attributes=("group",))
def quantized_convolution(signature: Signature) -> Cost:
    """X, W and Y, each with scale and zero point; a ninth tensor is the bias."""
    return _convolution(signature, signature.inputs[3], int(len(signature.inputs) > 8))


@register(*microsoft("FusedConv NhwcFusedConv"), attributes=("group", "given", "activation"))
def convolution_activation(signature: Signature) -> Cost:
    """A bias B, a tensor Z that is added, an activation: 1 per output element each, where given."""
    given = signature.attribute("given", ())
    extra = ("B" in given) + ("Z" in given) + bool(signature.attribute("activation"))
    return _convolution(signature, signature.inputs[1], extra)


@register("onnx.ConvTranspose", "com.microsoft.ConvTransposeWithDynamicPads", attributes=("group", "given"))
def transposed_convolution(signature: Signature) -> Cost:
    """Each input element is scattered over C_out/groups * kernel weights; W is (C_in, C_out/groups, *kernel)."""
    source, weight = signature.inputs[:2]
    bias = signature.outputs[0].numel if "B" in signature.attribute("given", ()) else 0
    return streamed(signature, "convolution", 2 * source.numel * prod(weight.shape[1:]) + bias)


@register("onnx.DeformConv", attributes=("group", "given"))
def deformable_convolution(signature: Signature) -> Cost:
    """Every product's operand is first mixed from 4 neighbours (2 each), and scaled where there is a mask (1)."""
    given = signature.attribute("given", ())
    source, weight = signature.inputs[:2]
    result = signature.outputs[0]
    pixels = result.numel // max(weight.shape[0], 1)
    samples = pixels * source.shape[1] * prod(weight.shape[2:])
    return _convolution(signature, weight, int("B" in given), samples * (8 + ("mask" in given)))


@register("onnx.CausalConvWithState", attributes=("given", "activation"))
def causal_convolution(signature: Signature) -> Cost:
    """Depthwise over the past and now: W is (channels, 1, k). A bias and an activation are 1 per output element."""
    extra = ("bias" in signature.attribute("given", ())) + (signature.attribute("activation") not in (None, "", "none"))
    return _convolution(signature, signature.inputs[1], extra)


@register("com.microsoft.WordConvEmbedding")
def word_convolution(signature: Signature) -> Cost:
    """Sequence (words, characters), W of the convolution, its bias, the characters' embeddings, then a maximum."""
    sequence, weight = signature.inputs[:2]
    positions = sequence.numel
    return streamed(signature, "convolution", positions * weight.shape[0] * (2 * prod(weight.shape[1:]) + 2))
