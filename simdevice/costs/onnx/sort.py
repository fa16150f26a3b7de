"""Sorting and selecting by comparison: comparisons are the FLOPs."""

from __future__ import annotations

from simdevice.costs.arithmetic import merge_sort, top_k
from simdevice.costs.registry import register
from simdevice.records import Cost, Signature

__all__: list[str] = []


@register("onnx.TopK", attributes=("k",))
def topk(signature: Signature) -> Cost:
    """Each element is compared with the smallest kept; a heap of k keeps order. An unknown k is the whole line."""
    source = signature.inputs[0]
    k = signature.attribute("k")
    kept = int(k[0] if isinstance(k, tuple) else k) if k is not None else (source.shape or (1,))[-1]
    return top_k(signature, kept)


@register("onnx.Unique", "com.microsoft.Unique")
def unique(signature: Signature) -> Cost:
    """Sorts all elements, then compares neighbours."""
    count = signature.inputs[0].numel
    return merge_sort(signature, count, count, passes=1)
