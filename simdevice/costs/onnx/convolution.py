"""Convolutions of ONNX: where the weight stands, and what else is fused."""

from __future__ import annotations

from math import prod

from simdevice.costs.arithmetic import contraction
from simdevice.costs.arithmetic.basics import product_of
from simdevice.costs.arithmetic.convolution import convolve, window_of
from simdevice.costs.arithmetic.products import outputs_extra
from simdevice.costs.onnx._common import microsoft, places
from simdevice.costs.registry import register
from simdevice.records import INSIDE, Cost, Extra, Signature

__all__: list[str] = []

SLIDES = ("group", "strides", "dilations")
"""The attributes that say how a window slides."""


@register("onnx.Conv", attributes=SLIDES)
def convolution(signature: Signature) -> Cost:
    """X, W, perhaps a bias."""
    return convolve(signature, outputs_extra(signature, bias=len(signature.inputs) > 2))


@register("com.microsoft.NhwcConv", attributes=SLIDES)
def channels_last(signature: Signature) -> Cost:
    """The same with channels last, in X and in W."""
    extras = outputs_extra(signature, bias=len(signature.inputs) > 2)
    return convolve(signature, extras, channels_last=True, weight_last=True)


@register("onnx.ConvInteger", attributes=SLIDES)
def integer_convolution(signature: Signature) -> Cost:
    """X, W, perhaps zero points: no bias."""
    return convolve(signature)


@register("onnx.QLinearConv", "com.microsoft.QLinearConv", attributes=(*SLIDES, "channels_last"))
def quantized_convolution(signature: Signature) -> Cost:
    """X, W and Y, each with scale and zero point; a ninth tensor is the bias. W keeps channels first."""
    last = bool(signature.attribute("channels_last"))
    return convolve(signature, outputs_extra(signature, bias=len(signature.inputs) > 8), weight=3, channels_last=last)


def _fused(signature: Signature, addend: str, *, channels_last: bool = False) -> Cost:
    """A bias B, a tensor that is added, an activation: 1 per output element each, where given."""
    stands = places(signature)
    activated = signature.attribute("activation") not in (None, "", "none")
    extras = outputs_extra(signature, bias="B" in stands, addend=addend in stands, activation=activated)
    return convolve(signature, extras, channels_last=channels_last, weight_last=channels_last)


FUSED = (*SLIDES, "given", "activation")


@register("com.microsoft.FusedConv", attributes=FUSED)
def convolution_activation(signature: Signature) -> Cost:
    """Z is added."""
    return _fused(signature, "Z")


@register("com.microsoft.NhwcFusedConv", attributes=FUSED)
def channels_last_activation(signature: Signature) -> Cost:
    """Z is added; channels last."""
    return _fused(signature, "Z", channels_last=True)


@register("com.microsoft.nchwc.Conv", attributes=FUSED)
def blocked_convolution(signature: Signature) -> Cost:
    """Channels in blocks; Sum is added."""
    return _fused(signature, "Sum")


@register(*microsoft("ConvTransposeWithDynamicPads"), "onnx.ConvTranspose", attributes=(*SLIDES, "given"))
def transposed_convolution(signature: Signature) -> Cost:
    """W is (C_in, C_out/groups, *kernel)."""
    return convolve(signature, outputs_extra(signature, bias="B" in places(signature)), transposed=True)


@register("onnx.DeformConv", attributes=(*SLIDES, "given"))
def deformable_convolution(signature: Signature) -> Cost:
    """Every product's operand is first mixed from 4 neighbours (2 each), and scaled where there is a mask (1)."""
    stands, (source, weight) = places(signature), signature.inputs[:2]
    pixels = signature.outputs[0].numel // max(weight.shape[0], 1)
    samples = pixels * source.shape[1] * prod(weight.shape[2:])
    mixing = Extra("sampling", samples * (8 + ("mask" in stands)), staged=True)
    return convolve(signature, [*outputs_extra(signature, bias="B" in stands), mixing])


@register("onnx.CausalConvWithState", "com.microsoft.CausalConvWithState", attributes=("given", "activation"))
def causal_convolution(signature: Signature) -> Cost:
    """Depthwise over the past and now: W is (channels, 1, k), the past's k - 1 places are a state."""
    (channels, _, kernel), result, stands = signature.inputs[1].shape, signature.outputs[0], places(signature)
    source = tuple(stands[name] for name in ("input", "past_state") if name in stands) or (0,)
    length = result.shape[-1:]
    window = window_of(signature, length, length, (kernel,), prod(result.shape[:1]))
    activated = signature.attribute("activation") not in (None, "", "none")
    extras = outputs_extra(signature, bias="bias" in stands, activation=activated)
    dims = (channels, result.numel // max(channels, 1), kernel, 1)
    product = product_of(signature, dims, source, 1, 0, window=window, windowed="a")
    return contraction(signature, "convolution", [product], extras)


@register("com.microsoft.WordConvEmbedding")
def word_convolution(signature: Signature) -> Cost:
    """Sequence (words, characters), W of the convolution, its bias, the characters' embeddings, then a maximum."""
    sequence, weight = signature.inputs[:2]
    positions, channels = sequence.numel, weight.shape[0]
    product = product_of(signature, (1, positions, prod(weight.shape[1:]), channels), INSIDE, 1, 0)
    extras = (Extra("bias", positions * channels), Extra("maximum", positions * channels))
    return contraction(signature, "convolution", [product], extras)
