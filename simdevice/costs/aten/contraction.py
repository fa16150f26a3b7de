"""Matrix products: 2 FLOPs per multiply-add, and 1 per output element for a bias."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from simdevice.costs.aten._common import aten, elements
from simdevice.costs.registry import register, streamed
from simdevice.records import Cost, Signature, TensorSpec
from simdevice.records.dtypes import is_float

__all__: list[str] = []


def _depth(matrix: TensorSpec) -> int:
    """The contracted length: the last dimension of the left operand (two values per packed element)."""
    return matrix.shape[-1] * (2 if matrix.dtype.endswith("_x2") else 1)


def _matmul(signature: Signature, flops: int) -> Cost:
    return streamed(signature, "matmul", flops)


PRODUCTS = aten("""
    _int_mm _weight_int4pack_mm _weight_int4pack_mm_for_cpu _weight_int4pack_mm_with_scales_and_zeros
    _weight_int8pack_mm bmm dot matmul mm mv vdot
""")


@register(*PRODUCTS)
def product(signature: Signature) -> Cost:
    """(..., M, K) x (..., K, N): 2*M*N*K per matrix. Quantised weights scale in the multiply-add."""
    return _matmul(signature, 2 * elements(signature.outputs) * _depth(signature.inputs[0]))


@register(*aten("addmm addmv baddbmm"))
def product_and_bias(signature: Signature) -> Cost:
    """self + mat1 x mat2: the product, and one addition per output element."""
    return _matmul(signature, elements(signature.outputs) * (2 * _depth(signature.inputs[1]) + 1))


@register("aten._addmm_activation")
def product_bias_activation(signature: Signature) -> Cost:
    """addmm, then ReLU or GELU on each output element."""
    return _matmul(signature, elements(signature.outputs) * (2 * _depth(signature.inputs[1]) + 2))


@register("aten.addbmm")
def summed_products(signature: Signature) -> Cost:
    """self + the sum over the batch of (B, M, K) x (B, K, N): one contraction of depth B*K."""
    batch, _, depth = signature.inputs[1].shape
    return _matmul(signature, elements(signature.outputs) * (2 * batch * depth + 1))


@register("aten.addr")
def outer_product(signature: Signature) -> Cost:
    """self + vec1 x vec2: a contraction of depth 1 with a bias."""
    return _matmul(signature, 3 * elements(signature.outputs))


@register(*aten("linear mkldnn_linear"))
def linear(signature: Signature) -> Cost:
    """input (..., K) x weight (N, K), and a bias where there is a third tensor."""
    bias = 1 if len(signature.inputs) > 2 else 0
    return _matmul(signature, elements(signature.outputs) * (2 * _depth(signature.inputs[0]) + bias))


@register(*aten("_scaled_mm _scaled_mm_v2"))
def scaled_product(signature: Signature) -> Cost:
    """float8 or float4 operands with scales; a bias is the vector of N after the scales."""
    outputs = elements(signature.outputs[:1])
    columns = signature.outputs[0].shape[-1:]
    bias = 1 if any(t.shape == columns and len(t.shape) == 1 for t in signature.inputs[4:]) else 0
    return _matmul(signature, outputs * (2 * _depth(signature.inputs[0]) + bias))


@register("aten._dyn_quant_matmul_4bit")
def four_bit_product(signature: Signature) -> Cost:
    """Activations are quantised on the fly; the packed weights hold their own scales."""
    return _matmul(signature, 2 * elements(signature.outputs) * signature.inputs[0].shape[-1])


@register("aten._grouped_mm", "transformers.grouped_mm_fallback")
def grouped_product(signature: Signature) -> Cost:
    """Two operands, perhaps the groups' ends (integers), perhaps a bias."""
    return _grouped(signature, signature.inputs[2:])


@register("aten._scaled_grouped_mm")
def scaled_grouped_product(signature: Signature) -> Cost:
    """Two operands and their scales, perhaps the groups' ends, perhaps a bias."""
    return _grouped(signature, signature.inputs[4:])


@register("transformers.grouped_mm_fallback_backward")
def grouped_product_backward(signature: Signature) -> Cost:
    """Both gradients of rows x matrices: each as many multiply-adds as the product itself."""
    rows, columns = signature.inputs[0].shape, signature.inputs[1].shape[-1]
    return _matmul(signature, 2 * 2 * rows[0] * rows[1] * columns)


def _grouped(signature: Signature, rest: Sequence[TensorSpec]) -> Cost:
    """Rows, columns or depth split into groups. Every row meets one group's matrix, so groups cost nothing extra;
    only where the depth is split (both operands are matrices) is the output not the place to count from."""
    left, right = signature.inputs[:2]
    bias = elements(signature.outputs) if any(is_float(t.dtype) for t in rest) else 0
    if len(left.shape) == len(right.shape) == 2:
        return _matmul(signature, 2 * left.shape[0] * left.shape[1] * right.shape[1] + bias)
    cost = _matmul(signature, 2 * elements(signature.outputs) * _depth(left) + bias)
    if len(left.shape) == len(right.shape):
        return cost
    # A matrix that no row (or column) meets is not read: a decoded token asks two experts of eight. Which
    # rows meet which is data, so as many matrices as there are rows is the most that can be read.
    stack, others = (right, left.shape[0]) if len(right.shape) == 3 else (left, right.shape[1])
    unread = stack.nbytes // max(stack.shape[0], 1) * max(stack.shape[0] - others, 0)
    weights = cost.weight_bytes - unread * stack.is_weight
    return replace(cost, bytes_read=cost.bytes_read - unread, weight_bytes=weights)


@register("aten._foreach_mm")
def list_of_products(signature: Signature) -> Cost:
    """Left operands, then as many right operands."""
    pairs = zip(signature.outputs, signature.inputs, strict=False)
    return _matmul(signature, sum(2 * out.numel * _depth(left) for out, left in pairs))


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
    return _matmul(signature, 3 * prod(common))


@register(*aten("affine_grid_generator cudnn_affine_grid_generator"))
def affine_grid(signature: Signature) -> Cost:
    """Each grid point is its homogeneous coordinates times theta (N, d, d+1)."""
    return _matmul(signature, 2 * elements(signature.outputs) * signature.inputs[0].shape[-1])


# Backward


@register("aten.cudnn_affine_grid_generator_backward")
def affine_grid_backward(signature: Signature) -> Cost:
    """Each gradient meets the homogeneous coordinates of its point, as many as theta (N, d, d+1) has columns."""
    return _matmul(signature, 2 * signature.inputs[0].numel * signature.outputs[0].shape[-1])


@register(*aten("linear_backward mkldnn_linear_backward"), attributes=("output_mask",))
def linear_backward(signature: Signature) -> Cost:
    """Gradients of the input and of the weight are one product each, of the bias one addition per gradient."""
    _, grad, weight = signature.inputs[:3]
    wants_input, wants_weight, wants_bias = signature.attribute("output_mask") or (True, True, True)
    products = 2 * grad.numel * weight.shape[-1] * (bool(wants_input) + bool(wants_weight))
    return _matmul(signature, products + (grad.numel if wants_bias else 0))


@register("aten.mkldnn_linear_backward_input")
def linear_backward_input(signature: Signature) -> Cost:
    """grad_output (..., N) x weight (N, K)."""
    return _matmul(signature, 2 * elements(signature.outputs) * signature.inputs[0].shape[-1])


@register("aten.mkldnn_linear_backward_weights", attributes=("bias_defined",))
def linear_backward_weights(signature: Signature) -> Cost:
    """grad_output^T x input, and the sum of grad_output for a bias."""
    grad, source = signature.inputs[:2]
    bias = grad.numel if signature.attribute("bias_defined") else 0
    return _matmul(signature, 2 * grad.numel * source.shape[-1] + bias)


@register("aten.matmul_backward", attributes=("mask",))
def matmul_backward(signature: Signature) -> Cost:
    """One product for each operand whose gradient is asked for."""
    grad, left = signature.inputs[:2]
    wanted = sum(map(bool, signature.attribute("mask") or (True, True)))
    return _matmul(signature, 2 * grad.numel * left.shape[-1] * wanted)
