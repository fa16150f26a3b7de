"""Passes over memory without products: every input read once, every output written once, unless said otherwise."""

from __future__ import annotations

from collections.abc import Iterable

from simdevice.costs.arithmetic.basics import ceil_log2, elements, lookup, moved
from simdevice.costs.registry import streamed
from simdevice.records import Cost, Signature, TensorSpec

__all__ = [
    "MERGE",
    "RADIX_2",
    "accumulated",
    "creation",
    "elementwise",
    "fourier",
    "free",
    "gather",
    "merge_sort",
    "movement",
    "norm",
    "optimizer_step",
    "pick",
    "pooling",
    "reduction",
    "softmax",
    "top_k",
]

MERGE = "comparisons of a merge sort: n*ceil(log2 n)"
RADIX_2 = "operations of a radix-2 transform, lengths rounded up to a power of two in the logarithm"
NORM_FLOPS_PER_ELEMENT = 5
"""Mean, variance, subtract, scale, shift."""
SOFTMAX_FLOPS_PER_ELEMENT = 5
"""Maximum, subtract, exponential, sum, divide; backward: multiply, sum, subtract, multiply, and one more product."""


def free(signature: Signature) -> Cost:
    """Nothing is read, nothing written."""
    return Cost("view", 0, bytes_read=0, bytes_written=0)


def elementwise(signature: Signature, per_element: int = 1, *, outputs: int | None = None, more: int = 0) -> Cost:
    """So many FLOPs for each element of the first `outputs` outputs (None: all; a mask that is returned is one)."""
    return streamed(signature, "elementwise", per_element * elements(signature.outputs[:outputs]) + more)


def reduction(signature: Signature, per_element: int = 1) -> Cost:
    """So many FLOPs per element of the first input; selections count as one pass."""
    return streamed(signature, "reduction", per_element * signature.inputs[0].numel)


def accumulated(signature: Signature) -> Cost:
    """Places that several gradients came from are summed: 1 per element read. A second input gives the shape."""
    return moved("reduction", elements(signature.inputs[:1]), signature.inputs[:1], signature.outputs)


def pooling(signature: Signature) -> Cost:
    """1 per element of the first input: overlapping windows share what they combine."""
    return streamed(signature, "pooling", signature.inputs[0].numel)


def softmax(signature: Signature, extra: int = 0) -> Cost:
    """5 per element of the first input (the scores, or backward their gradient), and `extra` where more is fused."""
    return streamed(signature, "softmax", (SOFTMAX_FLOPS_PER_ELEMENT + extra) * signature.inputs[0].numel)


def norm(signature: Signature, per_element: int = NORM_FLOPS_PER_ELEMENT, *, of: int = 0) -> Cost:
    """5 per element of input `of`, which is what is normalised; evaluation counts the same."""
    return streamed(signature, "norm", per_element * signature.inputs[of].numel)


def movement(signature: Signature, flops: int = 0) -> Cost:
    """A copy."""
    return streamed(signature, "movement", flops)


def creation(signature: Signature) -> Cost:
    """Only the output is written; a tensor that is named for its shape, or overwritten, is not read."""
    return moved("creation", 0, (), signature.outputs)


def gather(signature: Signature, flops: int = 0) -> Cost:
    """All is read once and written once, at places that indices name."""
    return streamed(signature, "gather", flops)


def pick(signature: Signature, flops_per_element: int = 0) -> Cost:
    """The first input is the table; as many of its elements are read as are written."""
    picked = elements(signature.outputs)
    return lookup(signature, picked, flops=picked * flops_per_element)


def optimizer_step(
    signature: Signature, flops_per_parameter: int, parameters: int, written: tuple[TensorSpec, ...]
) -> Cost:
    """One pass over parameters, gradients and states: all is read, and `written` is what changes."""
    return moved("elementwise", flops_per_parameter * parameters, signature.inputs, written)


def fourier(signature: Signature, samples: int, lengths: Iterable[int], *, real: bool, extra: int = 0) -> Cost:
    """Radix-2 transforms of `samples` values along dimensions of these lengths, and `extra` FLOPs besides.

    A butterfly is a complex multiplication (6) and two complex additions (4); n/2 * log2 n of them make 5 n log2 n for
    a line of n, half of that where symmetry of a real side halves the work.
    """
    flops = 5 * samples * sum(ceil_log2(length) for length in lengths)
    return streamed(signature, "fft", (flops // 2 if real else flops) + extra, reason=RADIX_2)


def merge_sort(signature: Signature, count: int, length: int, *, passes: int = 0) -> Cost:
    """`count` elements in lines of `length`, and `passes` further comparisons of each."""
    return streamed(signature, "sort", count * (passes + ceil_log2(length)), reason=MERGE)


def top_k(signature: Signature, k: int) -> Cost:
    """Each element is compared with the smallest kept; a heap of k keeps order."""
    comparisons = signature.inputs[0].numel * (1 + ceil_log2(k))
    return streamed(signature, "sort", comparisons, reason="comparisons of a heap of k: n*(1 + ceil(log2 k))")
