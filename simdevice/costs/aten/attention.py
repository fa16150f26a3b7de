"""Fused attention: QK^T and AV at 2 FLOPs per multiply-add, unmasked, and 5 per score for the softmax."""

from __future__ import annotations

from math import prod

from simdevice.costs.aten._common import aten, cost, unknown
from simdevice.costs.registry import register, streamed
from simdevice.records import Cost, Signature, TensorSpec

__all__: list[str] = []

SOFTMAX_FLOPS_PER_SCORE = 5
PACKED = "packed sequences: their lengths are data, not shapes"
NESTED = "nested tensors: their lengths are data, not shapes"


def _attention(signature: Signature, flops: int, first: int = 0) -> Cost:
    """Reads query, key and value (inputs from `first`) and writes the first output; the scores stay on chip."""
    return cost("attention", flops, signature.inputs[first : first + 3], signature.outputs[:1])


def _scores(query: TensorSpec, key: TensorSpec) -> int:
    """Elements of QK^T for query (..., heads, Lq, d) and key (..., kv heads, Lk, d).

    Grouped-query attention has fewer key heads; each query head still meets every key.
    """
    return prod(query.shape[:-1]) * key.shape[-2]


@register(
    *aten("_scaled_dot_product_attention_math _scaled_dot_product_attention_math_for_mps"),
    *aten("_scaled_dot_product_cudnn_attention _scaled_dot_product_efficient_attention"),
    *aten("_scaled_dot_product_flash_attention _scaled_dot_product_flash_attention_for_cpu"),
    *aten("_scaled_dot_product_fused_attention_overrideable _triton_scaled_dot_attention scaled_dot_product_attention"),
)
def attention(signature: Signature) -> Cost:
    """query, key, value, then perhaps a mask: 2*scores*(d + dv) + 5*scores."""
    query, key, value = signature.inputs[:3]
    per_score = 2 * (query.shape[-1] + value.shape[-1]) + SOFTMAX_FLOPS_PER_SCORE
    return _attention(signature, _scores(query, key) * per_score)


@register(*aten("_efficient_attention_forward _flash_attention_forward"))
def attention_by_length(signature: Signature) -> Cost:
    """The same with (batch, length, heads, d). Packed sequences have their lengths in a tensor."""
    return _by_length(signature, 0)


@register("aten._flash_attention_forward_no_dropout_inplace")
def attention_into(signature: Signature) -> Cost:
    """The same after a tensor that is only written."""
    return _by_length(signature, 1)


def _by_length(signature: Signature, first: int) -> Cost:
    query, key, value = signature.inputs[first : first + 3]
    if len(query.shape) != 4:
        return unknown(signature, PACKED)
    batch, queries, heads, width = query.shape
    per_score = 2 * (width + value.shape[-1]) + SOFTMAX_FLOPS_PER_SCORE
    return _attention(signature, batch * heads * queries * key.shape[1] * per_score, first)


def _backward_per_score(width: int, value_width: int) -> int:
    """Five products: scores again and dQ, dK of depth d; dP and dV of depth dv. The softmax again, and its backward."""
    return 2 * (3 * width + 2 * value_width) + 2 * SOFTMAX_FLOPS_PER_SCORE


@register(
    *aten("_scaled_dot_product_cudnn_attention_backward _scaled_dot_product_efficient_attention_backward"),
    *aten("_scaled_dot_product_flash_attention_backward _scaled_dot_product_flash_attention_for_cpu_backward"),
    *aten("_scaled_dot_product_fused_attention_overrideable_backward"),
)
def attention_backward(signature: Signature) -> Cost:
    """grad_out, query, key, value, ...: scores are computed again rather than kept."""
    query, key, value = signature.inputs[1:4]
    flops = _scores(query, key) * _backward_per_score(query.shape[-1], value.shape[-1])
    return streamed(signature, "attention", flops)


@register(*aten("_efficient_attention_backward _flash_attention_backward"))
def attention_by_length_backward(signature: Signature) -> Cost:
    """The same with (batch, length, heads, d)."""
    query, key, value = signature.inputs[1:4]
    if len(query.shape) != 4:
        return unknown(signature, PACKED)
    batch, queries, heads, width = query.shape
    scores = batch * heads * queries * key.shape[1]
    return streamed(signature, "attention", scores * _backward_per_score(width, value.shape[-1]))


def _multi_head(batch: int, queries: int, keys: int, width: int) -> int:
    """Projections of q, k, v and of the result with their biases, and attention over all heads together:
    heads * d is the width, so QK^T and AV do not depend on the number of heads; scores do (see callers)."""
    project_in = batch * (queries + 2 * keys) * width * (2 * width + 1)
    project_out = batch * queries * width * (2 * width + 1)
    return project_in + 4 * batch * queries * keys * width + project_out


@register(*aten("_native_multi_head_attention _triton_multi_head_attention"), attributes=("num_head",))
def multi_head_attention(signature: Signature) -> Cost:
    """query, key, value of (batch, length, width), then the projections' weights and biases."""
    query, key = signature.inputs[:2]
    if len(query.shape) != 3:
        return unknown(signature, NESTED)
    batch, queries, width = query.shape
    keys = key.shape[1]
    scores = batch * signature.attribute("num_head", 1) * queries * keys
    flops = _multi_head(batch, queries, keys, width) + SOFTMAX_FLOPS_PER_SCORE * scores
    return streamed(signature, "attention", flops)


@register("aten._transformer_encoder_layer_fwd", attributes=("num_heads",))
def transformer_encoder_layer(signature: Signature) -> Cost:
    """Attention, two residual additions, two layer norms (5 per element), and a feed-forward of one activation.

    Inputs: src, the attention's four, the norms' four, then ffn_weight_1 (hidden, width).
    """
    source, hidden = signature.inputs[0], signature.inputs[9].shape[0]
    if len(source.shape) != 3:
        return unknown(signature, NESTED)
    batch, length, width = source.shape
    scores = batch * signature.attribute("num_heads", 1) * length * length
    rows = batch * length
    feed_forward = rows * hidden * (2 * width + 1) + rows * hidden + rows * width * (2 * hidden + 1)
    around = rows * width * (2 * 1 + 2 * 5)
    flops = _multi_head(batch, length, length, width) + SOFTMAX_FLOPS_PER_SCORE * scores + feed_forward + around
    return streamed(signature, "attention", flops)


@register("aten._transform_bias_rescale_qkv")
def split_heads(signature: Signature) -> Cost:
    """Adds the bias to q, k and v and scales q while laying them out by head."""
    outputs = sum(t.numel for t in signature.outputs)
    return streamed(signature, "elementwise", outputs + signature.outputs[0].numel)
