"""Matrix products of ATen: which inputs are the operands, and what else is fused."""

from __future__ import annotations

from math import prod

from simdevice.costs.arithmetic import contraction, products
from simdevice.costs.arithmetic.basics import product_of
from simdevice.costs.aten._common import aten
from simdevice.costs.registry import register
from simdevice.records import Cost, Extra, Signature
from simdevice.records.dtypes import is_float

__all__: list[str] = []

ALL = (True, True, True)


@register(*aten("_int_mm bmm dot matmul mm mv vdot"))
def product(signature: Signature) -> Cost:
    """(..., M, K) x (..., K, N)."""
    return products.matmul(signature)


@register(
    *aten("_weight_int4pack_mm _weight_int4pack_mm_for_cpu _weight_int4pack_mm_with_scales_and_zeros"),
    *aten("_weight_int8pack_mm _dyn_quant_matmul_4bit"),
)
def packed_product(signature: Signature) -> Cost:
    """Weights are packed in a layout of their own, perhaps with their scales; scaling belongs to the multiply-add."""
    return products.linear(signature, packed=True)


@register(*aten("addmm addmv baddbmm"))
def product_and_bias(signature: Signature) -> Cost:
    """self + mat1 x mat2."""
    return products.matmul(signature, 1, 2, bias=1)


@register("aten._addmm_activation")
def product_bias_activation(signature: Signature) -> Cost:
    """addmm, then ReLU or GELU on each output element."""
    return products.matmul(signature, 1, 2, bias=1, activation=1)


@register("aten.addbmm")
def summed_products(signature: Signature) -> Cost:
    """self + the sum over the batch of (B, M, K) x (B, K, N): one contraction of depth B*K."""
    batch, rows, depth = signature.inputs[1].shape
    return products.matmul(signature, 1, 2, dims=(1, rows, batch * depth, signature.inputs[2].shape[-1]), bias=1)


@register("aten.addr")
def outer_product(signature: Signature) -> Cost:
    """self + vec1 x vec2: a contraction of depth 1."""
    rows, columns = signature.inputs[1].numel, signature.inputs[2].numel
    return products.matmul(signature, 1, 2, dims=(1, rows, 1, columns), bias=1)


@register(*aten("linear mkldnn_linear"))
def linear(signature: Signature) -> Cost:
    """input (..., K) x weight (N, K), and a bias where there is a third tensor."""
    return products.linear(signature, bias=len(signature.inputs) > 2)


@register(*aten("_scaled_mm _scaled_mm_v2"))
def scaled_product(signature: Signature) -> Cost:
    """float8 or float4 operands with scales; a bias is the vector of N after the scales."""
    columns = signature.outputs[0].shape[-1:]
    bias = any(t.shape == columns and len(t.shape) == 1 for t in signature.inputs[4:])
    return products.linear(signature, bias=bias)


@register("aten._grouped_mm", "transformers.grouped_mm_fallback")
def grouped_product(signature: Signature) -> Cost:
    """Two operands, perhaps the groups' ends (integers), perhaps a bias."""
    return products.grouped(signature, biased=any(is_float(t.dtype) for t in signature.inputs[2:]))


@register("aten._scaled_grouped_mm")
def scaled_grouped_product(signature: Signature) -> Cost:
    """Two operands and their scales, perhaps the groups' ends, perhaps a bias."""
    return products.grouped(signature, biased=any(is_float(t.dtype) for t in signature.inputs[4:]))


@register("transformers.grouped_mm_fallback_backward")
def grouped_product_backward(signature: Signature) -> Cost:
    """rows, matrices, ...: both gradients."""
    return products.grouped_gradients(signature)


@register("aten._foreach_mm")
def list_of_products(signature: Signature) -> Cost:
    """Left operands, then as many right operands."""
    count = len(signature.outputs)
    pairs = zip(signature.inputs[:count], signature.inputs[count:], strict=True)
    stated = [
        product_of(signature, products.dims_of(a.shape, b.shape), i, count + i, i) for i, (a, b) in enumerate(pairs)
    ]
    return contraction(signature, "matmul", stated)


@register("aten._trilinear", attributes=("expand1", "expand2", "expand3"))
def trilinear(signature: Signature) -> Cost:
    """The sum of i1*i2*i3 over their common shape: two multiplications and one addition per element of it.

    `expandN` lists the dimensions of length 1 that input N gains to reach the common rank.
    """
    common: list[int] = []
    for tensor, key in zip(signature.inputs, ("expand1", "expand2", "expand3"), strict=True):
        shape = list(tensor.shape)
        for dim in sorted(signature.attribute(key, ())):
            shape.insert(dim, 1)
        common = [max(a, b) for a, b in zip(common or shape, shape, strict=True)]
    return contraction(signature, "matmul", (), [Extra("product of three", 3 * prod(common))])


@register(*aten("affine_grid_generator cudnn_affine_grid_generator"))
def affine_grid(signature: Signature) -> Cost:
    """theta (N, d, d+1)."""
    return products.affine_grid(signature, signature.inputs[0])


@register("aten._compute_linear_combination")
def linear_combination(signature: Signature) -> Cost:
    """k stacked tensors, coefficients (m, k)."""
    stacked, (rows, depth) = signature.inputs[0], signature.inputs[1].shape
    return products.matmul(signature, 1, 0, dims=(1, rows, depth, stacked.numel // max(stacked.shape[0], 1)))


# Backward


@register("aten.cudnn_affine_grid_generator_backward")
def affine_grid_backward(signature: Signature) -> Cost:
    """The gradient of each point (N, points, d), transposed, times its homogeneous coordinates."""
    grad, theta = signature.inputs[0], signature.outputs[0]
    images, dims, columns = theta.shape[0], theta.shape[-2], theta.shape[-1]
    shape = (images, dims, grad.numel // max(images * dims, 1), columns)
    return contraction(signature, "matmul", [product_of(signature, shape, 0, (), 0)])


@register(*aten("linear_backward mkldnn_linear_backward"), attributes=("output_mask",))
def linear_backward(signature: Signature) -> Cost:
    """input, grad_output, weight."""
    return products.linear_gradients(signature, 1, 0, 2, signature.attribute("output_mask") or ALL, rows_of=2)


@register("aten.mkldnn_linear_backward_input")
def linear_backward_input(signature: Signature) -> Cost:
    """grad_output, weight."""
    return products.linear_gradients(signature, 0, None, 1, (True, False, False), rows_of=1)


@register("aten.mkldnn_linear_backward_weights", attributes=("bias_defined",))
def linear_backward_weights(signature: Signature) -> Cost:
    """grad_output, input."""
    mask = (False, True, bool(signature.attribute("bias_defined")))
    return products.linear_gradients(signature, 0, 1, None, mask, rows_of=1)


@register("aten.matmul_backward", attributes=("mask",))
def matmul_backward(signature: Signature) -> Cost:
    """grad, self, other: a product for each operand whose gradient is asked for."""
    return products.matmul_gradients(signature, signature.attribute("mask") or (True, True))
