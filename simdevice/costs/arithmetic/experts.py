"""Mixtures of experts: each row goes through `k` of the experts, whichever the router chooses.

Every pair of a row and an expert is a row of that expert's products, so FLOPs need no data: rows * k pairs. Which
experts are met is data: as many as there are pairs is the most, so a decoded token reads k experts' weights of all.
Pairs are shared out evenly among those met.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from simdevice.costs.arithmetic.basics import contraction, product_of, split_evenly
from simdevice.records import INSIDE, Cost, Extra, Product, Signature

__all__ = ["Layer", "mixture"]

ROUTER_FLOPS_PER_EXPERT = 5
"""A softmax over the experts, per row; the choice of the k greatest is part of it."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One matrix of every expert: where the stack of them lies, its sizes (k, n) and the stored bits of an element.
    `beside` are the places of what belongs to an expert as well: scales, zero points, a bias."""

    place: int
    k: int
    n: int
    bits: int
    beside: tuple[int, ...] = ()
    biased: bool = False
    is_last: bool = False


def mixture(
    signature: Signature, rows: int, k: int, experts: int, layers: Sequence[Layer], *, activations: int, router: int = 1
) -> Cost:
    """Rows lie in input 0, the router's scores in input `router`. The last layer's results are scaled and summed (2 per
    element of a pair); `activations` are FLOPs per pair."""
    pairs = rows * min(k, experts)
    met = min(experts, pairs)
    products: list[Product] = []
    for layer in layers:
        source, out = (INSIDE, 0) if layer.is_last else (0, INSIDE)
        for count, share in split_evenly(pairs, met):
            one = product_of(
                signature, (count, share, layer.k, layer.n), source, layer.place, out, chained=layer.is_last
            )
            products.append(replace(one, b_bits=layer.bits))
    read = {
        place: signature.inputs[place].nbytes * met // max(experts, 1) for place in _stacks(layers)
    }  # an expert that no row meets is not read
    extras = (
        Extra("router", ROUTER_FLOPS_PER_EXPERT * signature.inputs[router].numel, staged=True),
        Extra("bias", pairs * sum(layer.n for layer in layers if layer.biased)),
        Extra("activation", pairs * activations, staged=True),
        Extra("combination", 2 * pairs * layers[-1].n, staged=True),
    )
    return contraction(signature, "matmul", products, extras, read=read)


def _stacks(layers: Iterable[Layer]) -> list[int]:
    return [place for layer in layers for place in (layer.place, *layer.beside)]
