"""ONNX Runtime's fused operators (domain com.microsoft) that belong to no other family here."""

from __future__ import annotations

from simdevice.costs.onnx._common import elements, microsoft
from simdevice.costs.registry import register, streamed
from simdevice.records import Cost, Signature

__all__: list[str] = []


@register("com.microsoft.RelativePositionBias", "com.microsoft.GatedRelativePositionBias")
def position_bias(signature: Signature) -> Cost:
    """Rows of a small table, spread over all pairs of positions."""
    return streamed(signature, "gather", 0)


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
