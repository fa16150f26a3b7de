"""Attention: QK^T and AV at 2 FLOPs per multiply-add, unmasked, and 5 per score for the softmax.

Query heads that share a key and value head are rows of one product with it, so that shared keys are read once:
(batch * kv heads, heads per kv head * queries, d) x (d, keys). The scores stay inside the operator.

Gradients, with P = softmax(S), S = Q K^T and O = P V: dV = P^T dO, dP = dO V^T, dS = P * (dP - row sums of P * dP),
dQ = dS K, dK = dS^T Q; S is computed again rather than kept. That is five products and a softmax each way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from simdevice.costs.arithmetic.basics import Place, contraction, product_of
from simdevice.records import INSIDE, Cost, Extra, Product, Signature

__all__ = ["SOFTMAX_FLOPS_PER_SCORE", "Heads", "attend", "attended", "encoder_layer", "gradients", "multi_head"]

SOFTMAX_FLOPS_PER_SCORE = 5


@dataclass(frozen=True, slots=True)
class Heads:
    """The sizes of an attention: `heads` query heads over `kv_heads` key and value heads, all times the batch."""

    heads: int
    kv_heads: int
    queries: int
    keys: int
    width: int
    value_width: int

    @property
    def rows(self) -> tuple[int, int]:
        """Products, and rows of each: query heads that share a key head are rows of one product."""
        kv_heads = self.kv_heads if self.kv_heads and self.heads % self.kv_heads == 0 else self.heads
        return kv_heads, self.queries * self.heads // max(kv_heads, 1)

    @property
    def scores(self) -> int:
        return self.heads * self.queries * self.keys

    @property
    def softmax(self) -> Extra:
        return Extra("softmax", SOFTMAX_FLOPS_PER_SCORE * self.scores)


def attended(
    signature: Signature, h: Heads, query: Place, key: Place, value: Place, out: Place, *, chained: bool = False
) -> list[Product]:
    """The two products of an attention over tensors of the call."""
    batch, rows = h.rows
    return [
        product_of(signature, (batch, rows, h.width, h.keys), query, key, INSIDE, chained=chained),
        product_of(signature, (batch, rows, h.keys, h.value_width), INSIDE, value, out, chained=True),
    ]


def attend(
    signature: Signature,
    h: Heads,
    query: Place = 0,
    key: Place = 1,
    value: Place = 2,
    *,
    extras: tuple[Extra, ...] = (),
    beside: Place = (),
    read: Mapping[int, int] | None = None,
) -> Cost:
    """Reads query, key, value (a cache included) and what lies `beside` (a bias), and writes the first output; `read`
    says how many bytes of an input, where that is not all."""
    used: set[int] = set()
    for places in (query, key, value, beside):
        used |= {places} if isinstance(places, int) else set(places)
    unread = {i: 0 for i in range(len(signature.inputs)) if i not in used}
    products = attended(signature, h, query, key, value, 0)
    return contraction(
        signature, "attention", products, (h.softmax, *extras), read=unread | dict(read or {}), written=1
    )


def gradients(signature: Signature, h: Heads) -> Cost:
    """Inputs: gradient, query, key, value, ...; outputs: their gradients from dQ on."""
    batch, rows = h.rows
    products = [
        product_of(signature, (batch, rows, h.width, h.keys), 1, 2),  # S = Q K^T
        product_of(
            signature, (batch, h.keys, rows, h.value_width), INSIDE, 0, _out(signature, 2), chained=True
        ),  # P^T dO
        product_of(signature, (batch, rows, h.value_width, h.keys), 0, 3, chained=True),  # dP = dO V^T
        product_of(signature, (batch, rows, h.keys, h.width), INSIDE, 2, _out(signature, 0), chained=True),  # dQ = dS K
        product_of(
            signature, (batch, h.keys, rows, h.width), INSIDE, 1, _out(signature, 1), chained=True
        ),  # dK = dS^T Q
    ]
    return contraction(signature, "attention", products, [Extra("softmax", 2 * SOFTMAX_FLOPS_PER_SCORE * h.scores)])


def _out(signature: Signature, place: int) -> Place:
    return place if place < len(signature.outputs) else INSIDE


def multi_head(signature: Signature, heads: int) -> Cost:
    """query, key, value (batch, length, width), then weight and bias of the three projections (3 width rows) and of
    the result's."""
    query, key = signature.inputs[:2]
    batch, queries, width = query.shape
    keys = key.shape[1]
    h = _heads_of(batch, heads, queries, keys, width)
    products = [
        *(
            product_of(signature, (1, batch * length, width, width), place, 3)
            for place, length in ((0, queries), (1, keys), (2, keys))
        ),
        *attended(signature, h, INSIDE, INSIDE, INSIDE, INSIDE, chained=True),
        product_of(signature, (1, batch * queries, width, width), INSIDE, 5, 0, chained=True),
    ]
    biases = Extra("bias", batch * width * (queries + 2 * keys + queries))
    return contraction(signature, "attention", products, (biases, h.softmax))


def encoder_layer(signature: Signature, heads: int) -> Cost:
    """src, the attention's four parameters, the norms' four, then the feed-forward's (hidden, width) and (width,
    hidden) with their biases. Two residual additions, two layer norms (5 per element) and one activation."""
    source, hidden = signature.inputs[0], signature.inputs[9].shape[0]
    batch, length, width = source.shape
    rows = batch * length
    h = _heads_of(batch, heads, length, length, width)
    products = [
        product_of(signature, (1, rows, width, 3 * width), 0, 1),
        *attended(signature, h, INSIDE, INSIDE, INSIDE, INSIDE, chained=True),
        product_of(signature, (1, rows, width, width), INSIDE, 3, chained=True),
        product_of(signature, (1, rows, width, hidden), INSIDE, 9, chained=True),
        product_of(signature, (1, rows, hidden, width), INSIDE, 11, 0, chained=True),
    ]
    extras = (
        Extra("bias", rows * (3 * width + width + hidden + width)),
        h.softmax,
        Extra("activation", rows * hidden),
        Extra("residual", 2 * rows * width),
        Extra("norm", 2 * 5 * rows * width, staged=True),
    )
    return contraction(signature, "attention", products, extras)


def _heads_of(batch: int, heads: int, queries: int, keys: int, width: int) -> Heads:
    heads = max(heads, 1)
    return Heads(batch * heads, batch * heads, queries, keys, width // heads, width // heads)
