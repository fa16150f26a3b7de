"""Sorting, searching and selecting by comparison: comparisons are the FLOPs."""

from __future__ import annotations

from simdevice.costs.arithmetic import ceil_log2, elements, merge_sort, top_k
from simdevice.costs.aten._common import aten
from simdevice.costs.registry import register, streamed
from simdevice.records import Cost, Signature

__all__: list[str] = []


def _length(signature: Signature, default: int = -1) -> int:
    """Elements along the sorted dimension; a scalar has one."""
    shape = signature.inputs[0].shape
    dim = signature.attribute("dim", default)
    return shape[dim if dim is not None else default] if shape else 1


@register(*aten("argsort mode msort sort"), attributes=("dim",))
def sort(signature: Signature) -> Cost:
    """Each line along `dim` on its own."""
    return merge_sort(signature, signature.inputs[0].numel, _length(signature))


@register("aten.topk", attributes=("k",))
def topk(signature: Signature) -> Cost:
    """Each element is compared with the smallest kept; a heap of k keeps order."""
    return top_k(signature, signature.attribute("k", 1))


@register(*aten("_unique _unique2"))
def unique(signature: Signature) -> Cost:
    """Sorts all elements, then compares neighbours."""
    count = signature.inputs[0].numel
    return merge_sort(signature, count, count, passes=1)


@register(*aten("unique_dim unique_dim_consecutive"), attributes=("dim",))
def unique_along(signature: Signature) -> Cost:
    """Sorts slices along `dim`; comparing two slices costs their elements."""
    count = signature.inputs[0].numel
    length = 1 if "consecutive" in signature.name else _length(signature, 0)
    return merge_sort(signature, count, length, passes=1)


@register("aten.unique_consecutive")
def unique_consecutive(signature: Signature) -> Cost:
    """Compares neighbours only."""
    return streamed(signature, "sort", signature.inputs[0].numel)


@register("aten.isin")
def isin(signature: Signature) -> Cost:
    """Sorts both sets together, then compares neighbours."""
    count = elements(signature.inputs)
    return merge_sort(signature, count, count, passes=1)


@register("aten.searchsorted")
def searchsorted(signature: Signature) -> Cost:
    """Each value (as many as outputs) finds its place in the last dimension of the first input."""
    shape = signature.inputs[0].shape
    return streamed(signature, "sort", elements(signature.outputs) * ceil_log2(shape[-1] + 1 if shape else 1))


@register("aten.bucketize")
def bucketize(signature: Signature) -> Cost:
    """Each value finds its place among the boundaries, the last input."""
    return streamed(signature, "sort", elements(signature.outputs) * ceil_log2(signature.inputs[-1].numel + 1))
