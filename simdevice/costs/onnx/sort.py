"""Sorting and selecting by comparison: comparisons are the FLOPs."""

from __future__ import annotations

from simdevice.costs.aten.sort import MERGE
from simdevice.costs.onnx._common import ceil_log2
from simdevice.costs.registry import register, streamed
from simdevice.records import Cost, Signature

__all__: list[str] = []


@register("onnx.TopK", attributes=("k",))
def topk(signature: Signature) -> Cost:
    """Each element is compared with the smallest kept; a heap of k keeps order. An unknown k is the whole line."""
    source = signature.inputs[0]
    k = signature.attribute("k")
    kept = int(k[0] if isinstance(k, tuple) else k) if k is not None else (source.shape or (1,))[-1]
    comparisons = source.numel * (1 + ceil_log2(kept))
    return streamed(signature, "sort", comparisons, reason="comparisons of a heap of k: n*(1 + ceil(log2 k))")


@register("onnx.Unique", "com.microsoft.Unique")
def unique(signature: Signature) -> Cost:
    """Sorts all elements, then compares neighbours."""
    count = signature.inputs[0].numel
    return streamed(signature, "sort", count * (1 + ceil_log2(count)), reason=MERGE)
