"""The matrix products inside an operator: (batch, m, k, n) from its shapes and what its cost rule counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from simdevice.records import Cost, Signature, TensorSpec
from simdevice.records.dtypes import bits

__all__ = ["CONTRACTIONS", "Product", "products"]

CONTRACTIONS = frozenset({"attention", "convolution", "matmul"})
"""The categories that the matrix array computes."""

OPERANDS = {
    "aten._addmm_activation": (1, 2),
    "aten.addbmm": (1, 2),
    "aten.addmm": (1, 2),
    "aten.addmv": (1, 2),
    "aten.baddbmm": (1, 2),
    "onnx.QLinearConv": (0, 3),
    "onnx.QLinearMatMul": (0, 3),
}
"""Which inputs are the two operands, where they are not the first two."""

HEADS_INSIDE = ("aten._efficient_attention", "aten._flash_attention")
"""Attention over (batch, length, heads, d); the rest takes (batch, heads, length, d)."""


@dataclass(frozen=True, slots=True)
class Product:
    """`batch` products of (m, k) x (k, n). `chained`: reads what the stage before it wrote."""

    batch: int
    m: int
    k: int
    n: int
    a_bits: int
    b_bits: int
    out_bits: int
    chained: bool = False

    @property
    def flops(self) -> int:
        return 2 * self.batch * self.m * self.k * self.n


def products(signature: Signature, cost: Cost) -> tuple[Product, ...]:
    """The products of a contraction, in order; empty where the operator has none to speak of.

    1. Convolution as im2col: (groups, N * spatial out, C_in/groups * kernel, C_out/groups); its
       gradients, and transposed ones, from the side that has the products.
    2. Attention: (B*H, Lq, d, Lk), then (B*H, Lq, Lk, dv), which reads the scores back. Its gradient:
       the scores again, then dV, dP, dQ, dK.
    3. All else from the output and the FLOPs: k = FLOPs / 2 / output elements (a bias adds less than
       one to it); what comes before the last two dimensions is batch, or part of m where one
       right-hand matrix serves all.
    """
    if not signature.outputs or not cost.flops:
        return ()
    found: tuple[Product, ...] = ()
    if cost.category == "convolution":
        found = _convolution(signature)
    elif cost.category == "attention":
        found = _attention(signature)
    if not _explains(found, signature, cost.flops):
        found = _product(signature, cost.flops)
    return tuple(p for p in found if p.flops)


def _explains(found: tuple[Product, ...], signature: Signature, flops: int) -> bool:
    """Whether these are the FLOPs counted, but for a few per score, output or bias gradient."""
    rest = flops - sum(p.flops for p in found)
    small = max((10 * p.batch * p.m * p.n for p in found), default=0) + sum(t.numel for t in signature.inputs)
    return bool(found) and 0 <= rest <= small


def _operands(signature: Signature) -> tuple[TensorSpec, TensorSpec]:
    a, b = OPERANDS.get(signature.name, (0, 1))
    inputs = signature.inputs
    left = inputs[min(a, len(inputs) - 1)] if inputs else signature.outputs[0]
    return left, (inputs[b] if b < len(inputs) else left)


def _product(signature: Signature, flops: int) -> tuple[Product, ...]:
    left, right = _operands(signature)
    result = signature.outputs[0]
    if not result.numel:
        return ()
    k = flops // (2 * result.numel)
    *outer, m, n = (1, 1, *result.shape)
    if len(result.shape) == 1 and len(left.shape) == 2:  # a matrix times a vector
        m, n = n, m
    batch = prod(outer)
    if batch > 1 and right.numel < batch * k * n:
        batch, m = 1, batch * m
    right_bits = min(bits(right.dtype), max(1, 8 * right.nbytes // max(1, batch * k * n)))  # packed operands have fewer
    return (Product(batch, m, k, n, bits(left.dtype), right_bits, bits(result.dtype)),)


def _convolution(signature: Signature) -> tuple[Product, ...]:
    if signature.name.endswith("_backward"):
        return _convolution_backward(signature)
    source, weight = _operands(signature)
    result, out = signature.outputs[0], bits(signature.outputs[0].dtype)
    groups = int(signature.attribute("groups") or signature.attribute("group") or 1)
    types = bits(source.dtype), bits(weight.dtype), out
    if signature.attribute("transposed") or "transpose" in signature.name.lower():
        # Each input pixel gives C_out/groups * kernel products, which are then added up.
        columns = prod(weight.shape[1:])
        depth = weight.shape[0] // groups
        return (Product(groups, source.numel // max(1, weight.shape[0]), depth, columns, *types),)
    channels = weight.shape[0]
    return (Product(groups, result.numel // max(1, channels), prod(weight.shape[1:]), channels // groups, *types),)


def _convolution_backward(signature: Signature) -> tuple[Product, ...]:
    """One product for the input's gradient, one for the weight's; both over all output pixels."""
    grad, _, weight = signature.inputs[:3]
    if signature.attribute("transposed") or "transpose" in signature.name:
        return ()
    groups = int(signature.attribute("groups") or 1)
    mask = signature.attribute("output_mask") or (True, True, True)
    pixels = grad.numel // max(1, weight.shape[0])
    channels, columns = weight.shape[0] // groups, prod(weight.shape[1:])
    types = bits(grad.dtype), bits(weight.dtype), bits(signature.outputs[0].dtype)
    into_input = Product(groups, pixels, channels, columns, *types)
    into_weight = Product(groups, channels, pixels, columns, *types)
    return tuple(p for p, wanted in zip((into_input, into_weight), mask, strict=False) if wanted)


def _attention(signature: Signature) -> tuple[Product, ...]:
    backward = "backward" in signature.name
    inputs = signature.inputs[1:4] if backward else signature.inputs[:3]
    if len(inputs) < 3 or any(len(t.shape) < 3 for t in inputs):
        return ()
    query, key, value = inputs
    queries, keys, heads = query.shape[-2], key.shape[-2], prod(query.shape[:-2])
    if signature.name.startswith(HEADS_INSIDE):
        queries, keys, heads = query.shape[1], key.shape[1], query.shape[0] * query.shape[2]
    depth, value_depth, width = query.shape[-1], value.shape[-1], bits(query.dtype)
    shapes: Sequence[tuple[int, int, int]] = [(queries, depth, keys), (queries, keys, value_depth)]
    if backward:
        shapes = [
            (queries, depth, keys),  # scores
            (keys, queries, value_depth),  # dV = P^T dO
            (queries, value_depth, keys),  # dP = dO V^T
            (queries, keys, depth),  # dQ = dS K
            (keys, queries, depth),  # dK = dS^T Q
        ]
    return tuple(Product(heads, *shape, width, width, width, chained=i > 0) for i, shape in enumerate(shapes))
