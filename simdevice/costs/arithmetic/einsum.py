"""A sum over products of named indices, taken pair by pair from the left.

That is how PyTorch contracts without a path of its own, and how ONNX Runtime does
(onnxruntime/core/providers/cpu/math/einsum.cc). Of each pair: an index that nothing else needs and only one of the two
has is summed first (1 FLOP per element summed over); indices that both have and nothing else needs are the depth of a
matrix product (2 per multiply-add); with no such index the pair is multiplied element by element (1 per element of its
result).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod

from simdevice.costs.arithmetic.basics import Place, contraction, product_of
from simdevice.costs.arithmetic.passes import elementwise, movement
from simdevice.costs.registry import streamed
from simdevice.records import INSIDE, Cost, Extra, Product, Signature

__all__ = ["einsum"]


def einsum(
    signature: Signature, sizes: Mapping[str, int], terms: Sequence[Iterable[str]], result: Iterable[str]
) -> Cost:
    """`terms` are the indices of each input, `sizes` their lengths. One input is a sum, or moved."""
    names, kept = [set(term) for term in terms], set(result)
    if len(names) == 1:
        elements = prod(sizes[name] for name in names[0])
        return streamed(signature, "reduction", elements) if names[0] - kept else movement(signature)

    def size(indices: set[str]) -> int:
        return prod(sizes[name] for name in indices)

    sums, multiplications = 0, 0
    products: list[Product] = []
    left = names[0]
    place: Place = 0
    for number, right in enumerate(names[1:], 1):
        is_last = number == len(names) - 1
        wanted = kept.union(*names[number + 1 :])
        for operand, other in ((left, right), (right, left)):
            if operand - other - wanted:
                sums += size(operand)
        left, right = left & (right | wanted), right & (left | wanted)
        depth = (left & right) - wanted
        if depth:
            dims = (size(left & right & wanted), size(left - right), size(depth), size(right - left))
            out: Place = 0 if is_last else INSIDE
            products.append(product_of(signature, dims, place, number, out, chained=bool(products)))
        else:
            multiplications += size(left | right)
        left, place = (left | right) & wanted, INSIDE
    if not products:
        return elementwise(signature, 0, more=sums + multiplications)
    extras = (Extra("sum", sums, staged=True), Extra("elementwise product", multiplications, staged=True))
    return contraction(signature, "matmul", products, extras)
