"""Attention operators of ATen: which inputs are query, key and value, and how they are laid out."""

from __future__ import annotations

from functools import partial
from math import prod

from simdevice.costs.arithmetic import attention as formula
from simdevice.costs.arithmetic import elementwise, unknown
from simdevice.costs.arithmetic.attention import Heads
from simdevice.costs.aten._common import aten
from simdevice.costs.registry import register
from simdevice.records import Cost, Signature

__all__: list[str] = []

PACKED = "packed sequences: their lengths are data, not shapes"
NESTED = "nested tensors: their lengths are data, not shapes"


def _by_head(signature: Signature, first: int) -> Heads:
    """(..., heads, length, width) from input `first` on; every key head is met, fewer of them are shared."""
    query, key, value = (t.shape for t in signature.inputs[first : first + 3])
    return Heads(prod(query[:-2]), prod(key[:-2]), query[-2], key[-2], query[-1], value[-1])


def _by_length(signature: Signature, first: int) -> Heads | None:
    """(batch, length, heads, width); packed sequences have their lengths in a tensor."""
    query, key, value = (t.shape for t in signature.inputs[first : first + 3])
    if len(query) != 4:
        return None
    return Heads(query[0] * query[2], key[0] * key[2], query[1], key[1], query[3], value[3])


@register(
    *aten("_scaled_dot_product_attention_math _scaled_dot_product_attention_math_for_mps"),
    *aten("_scaled_dot_product_cudnn_attention _scaled_dot_product_efficient_attention"),
    *aten("_scaled_dot_product_flash_attention _scaled_dot_product_flash_attention_for_cpu"),
    *aten("_scaled_dot_product_fused_attention_overrideable _triton_scaled_dot_attention scaled_dot_product_attention"),
    "simacc.flex_attention",  # its blocks' masks are data: as if every pair were scored
)
def attention(signature: Signature) -> Cost:
    """query, key, value, then perhaps a mask, which is not counted."""
    return formula.attend(signature, _by_head(signature, 0))


def _attend_by_length(signature: Signature, first: int) -> Cost:
    """The same with length before heads, from input `first` on."""
    heads = _by_length(signature, first)
    if heads is None:
        return unknown(signature, PACKED)
    return formula.attend(signature, heads, first, first + 1, first + 2)


register(*aten("_efficient_attention_forward _flash_attention_forward"))(partial(_attend_by_length, first=0))

register("aten._flash_attention_forward_no_dropout_inplace")(partial(_attend_by_length, first=1))
"""After a tensor that is only written."""


@register(
    *aten("_scaled_dot_product_cudnn_attention_backward _scaled_dot_product_efficient_attention_backward"),
    *aten("_scaled_dot_product_flash_attention_backward _scaled_dot_product_flash_attention_for_cpu_backward"),
    *aten("_scaled_dot_product_fused_attention_overrideable_backward"),
)
def attention_backward(signature: Signature) -> Cost:
    """grad_out, query, key, value, ..."""
    return formula.gradients(signature, _by_head(signature, 1))


@register(*aten("_efficient_attention_backward _flash_attention_backward"))
def attention_by_length_backward(signature: Signature) -> Cost:
    """The same with length before heads."""
    heads = _by_length(signature, 1)
    return unknown(signature, PACKED) if heads is None else formula.gradients(signature, heads)


@register(*aten("_native_multi_head_attention _triton_multi_head_attention"), attributes=("num_head",))
def multi_head_attention(signature: Signature) -> Cost:
    """query, key, value of (batch, length, width), then the projections' weights and biases."""
    if len(signature.inputs[0].shape) != 3:
        return unknown(signature, NESTED)
    return formula.multi_head(signature, signature.attribute("num_head", 1))


@register("aten._transformer_encoder_layer_fwd", attributes=("num_heads",))
def transformer_encoder_layer(signature: Signature) -> Cost:
    """A whole layer in evaluation."""
    if len(signature.inputs[0].shape) != 3:
        return unknown(signature, NESTED)
    return formula.encoder_layer(signature, signature.attribute("num_heads", 1))


@register("aten._transform_bias_rescale_qkv")
def split_heads(signature: Signature) -> Cost:
    """Adds the bias to q, k and v and scales q while laying them out by head."""
    return elementwise(signature, more=signature.outputs[0].numel)
