"""ONNX Runtime's fused operators (domain com.microsoft) that belong to no other family here."""

from __future__ import annotations

from math import prod

from simdevice.costs.onnx._common import elements, microsoft
from simdevice.costs.registry import register, streamed
from simdevice.records import Cost, Signature

__all__: list[str] = []


@register("com.microsoft.RelativePositionBias", "com.microsoft.GatedRelativePositionBias")
def position_bias(signature: Signature) -> Cost:
    """Rows of a small table, spread over all pairs of positions."""
    return streamed(signature, "gather", 0)


def blocked(names: str) -> tuple[str, ...]:
    """Operators on channels in blocks, which ONNX Runtime's last optimisation level makes for one machine."""
    return tuple(f"com.microsoft.nchwc.{name}" for name in names.split())


@register(*blocked("Conv"), attributes=("group", "given", "activation"))
def blocked_convolution(signature: Signature) -> Cost:
    """X, W, perhaps a bias B, a tensor Sum that is added, an activation: 1 per output element each."""
    given, result = signature.attribute("given", ()), signature.outputs[0]
    extra = ("B" in given) + ("Sum" in given) + bool(signature.attribute("activation"))
    return streamed(signature, "convolution", result.numel * (2 * prod(signature.inputs[1].shape[1:]) + extra))


@register(*blocked("AveragePool GlobalAveragePool GlobalMaxPool MaxPool"))
def blocked_pooling(signature: Signature) -> Cost:
    """1 per input element."""
    return streamed(signature, "pooling", signature.inputs[0].numel)


@register(*blocked("ReorderInput ReorderOutput"))
def reorder(signature: Signature) -> Cost:
    """From channels first to blocks, and back."""
    return streamed(signature, "movement", 0)


@register(*blocked("Upsample"), attributes=("mode",))
def blocked_resize(signature: Signature) -> Cost:
    """2 FLOPs for each of 2 x 2 taps; nearest copies."""
    if signature.attribute("mode") == "linear":
        return streamed(signature, "pooling", 8 * elements(signature.outputs))
    return streamed(signature, "movement", 0)


@register(*microsoft("RemovePadding RestorePadding"))
def padding(signature: Signature) -> Cost:
    """Rows are packed together, or put back."""
    return streamed(signature, "movement", 0)


@register("com.microsoft.CausalConvWithState", attributes=("given", "activation"))
def causal_convolution(signature: Signature) -> Cost:
    """Depthwise: W is (channels, 1, k); bias and activation are 1 per output element."""
    given, outputs = signature.attribute("given", ()), elements(signature.outputs[:1])
    extra = ("bias" in given) + (signature.attribute("activation") not in (None, "", "none"))
    return streamed(signature, "convolution", outputs * (2 * signature.inputs[1].shape[-1] + extra))


@register("com.microsoft.NGramRepeatBlock")
def repeat_block(signature: Signature) -> Cost:
    """Compares each position with the last words, then copies the scores."""
    return streamed(signature, "movement", signature.inputs[0].numel)
