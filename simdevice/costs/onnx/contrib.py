"""ONNX Runtime's fused operators (domain com.microsoft) that belong to no other family here."""

from __future__ import annotations

from simdevice.costs.arithmetic import elements, gather, movement, pooling
from simdevice.costs.onnx._common import microsoft
from simdevice.costs.registry import register, streamed
from simdevice.records import Cost, Signature

__all__: list[str] = []

register(*microsoft("RelativePositionBias GatedRelativePositionBias"))(gather)
"""Rows of a small table, spread over all pairs of positions."""


def blocked(names: str) -> tuple[str, ...]:
    """Operators on channels in blocks, which ONNX Runtime's last optimisation level makes for one machine."""
    return tuple(f"com.microsoft.nchwc.{name}" for name in names.split())


register(*blocked("AveragePool GlobalAveragePool GlobalMaxPool MaxPool"))(pooling)

register(*blocked("ReorderInput ReorderOutput"), *microsoft("RemovePadding RestorePadding"))(movement)
"""From channels first to blocks, and back; rows are packed together, or put back."""


@register(*blocked("Upsample"), attributes=("mode",))
def blocked_resize(signature: Signature) -> Cost:
    """2 FLOPs for each of 2 x 2 taps; nearest copies."""
    if signature.attribute("mode") == "linear":
        return streamed(signature, "pooling", 8 * elements(signature.outputs))
    return movement(signature)


@register("com.microsoft.NGramRepeatBlock")
def repeat_block(signature: Signature) -> Cost:
    """Compares each position with the last words, then copies the scores."""
    return movement(signature, signature.inputs[0].numel)
