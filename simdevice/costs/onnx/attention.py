"""Attention operators of ONNX and ONNX Runtime: where query, key, value and caches stand, and how they are laid out.

Query, key, value and a cache of past keys and values are read, the output written; scores and masks stay on chip.
"""

from __future__ import annotations

from simdevice.costs.arithmetic import attention as formula
from simdevice.costs.arithmetic import contraction, unknown
from simdevice.costs.arithmetic.attention import Heads
from simdevice.costs.arithmetic.basics import product_of
from simdevice.costs.onnx._common import named, places
from simdevice.costs.registry import register
from simdevice.records import INSIDE, Cost, Extra, Signature, TensorSpec

__all__: list[str] = []

_ROLES = (("Q", "query"), ("K", "key", "past_key", "past"), ("V", "value", "past_value", "past"))
"""Formal names of query, key and value, caches included."""


MASKS = ("mask_index", "attention_bias", "past_sequence_length")
"""What an operator reads of these is not counted, as of every mask."""


def _attend(signature: Signature, heads: Heads, *, packed: bool = False, bias: int = 0) -> Cost:
    """`packed`: key and value lie in the query's tensor too, or the value in the key's. `bias`: additions of one."""
    stands = places(signature)
    query, key, value = (tuple(stands[name] for name in names if name in stands) for names in _ROLES)
    if packed:
        key = key if "key" in stands else (*query, *key)
        value = value if "value" in stands else (*key, *(place for place in value if place not in key))
    extras, beside = (Extra("bias", bias),), (stands["bias"],) if bias else ()
    return formula.attend(signature, heads, query, key, value, extras=extras, beside=beside)


def _lengths(tensor: TensorSpec, heads: int) -> tuple[int, int, int, int]:
    """Batch, heads, length and a head's width of (batch, heads, length, width) or (batch, length, heads * width)."""
    if len(tensor.shape) == 4:
        batch, own, length, width = tensor.shape
        return batch, own, length, width
    batch, length, wide = tensor.shape
    return batch, heads, length, wide // max(heads, 1)


@register("onnx.Attention", "ai.onnx.preview.FlexAttention", attributes=("given", "q_num_heads", "kv_num_heads"))
def attention(signature: Signature) -> Cost:
    """Each query head meets every key, past ones included; grouped-query attention has fewer key heads.

    FlexAttention's functions of scores and probabilities are part of the softmax's 5 per score.
    """
    tensors = named(signature)
    batch, heads, queries, width = _lengths(tensors["Q"], signature.attribute("q_num_heads") or 1)
    _, kv_heads, keys, _ = _lengths(tensors["K"], signature.attribute("kv_num_heads") or 1)
    *_, value_width = _lengths(tensors["V"], signature.attribute("kv_num_heads") or 1)
    keys += tensors["past_key"].shape[2] if "past_key" in tensors else 0
    return _attend(signature, Heads(batch * heads, batch * kv_heads, queries, keys, width, value_width))


@register("com.microsoft.MultiHeadAttention", attributes=("given", "num_heads"))
def multi_head_attention(signature: Signature) -> Cost:
    """query (batch, length, width), or all three packed as (batch, length, heads, 3, head width)."""
    tensors, heads = named(signature), signature.attribute("num_heads") or 1
    query = tensors["query"]
    if len(query.shape) == 5:
        batch, queries, _, _, width = query.shape
        return _attend(signature, Heads(batch * heads, batch * heads, queries, queries, width, width), packed=True)
    batch, queries, wide = query.shape
    width, key = wide // heads, tensors.get("key", query)
    if len(key.shape) == 5:  # key and value packed as (batch, length, heads, 2, head width)
        sizes = Heads(batch * heads, batch * heads, queries, key.shape[1], width, width)
        return _attend(signature, sizes, packed=True)
    keys = key.shape[2] if len(key.shape) == 4 else key.shape[1]
    keys += tensors["past_key"].shape[2] if "past_key" in tensors else 0
    value = tensors.get("value", key)
    value_width = value.shape[-1] if len(value.shape) == 4 else value.shape[-1] // heads
    bias = query.numel + key.numel + value.numel if "bias" in tensors else 0
    return _attend(signature, Heads(batch * heads, batch * heads, queries, keys, width, value_width), bias=bias)


@register("com.microsoft.GroupQueryAttention", attributes=("given", "num_heads", "kv_num_heads"))
def group_query_attention(signature: Signature) -> Cost:
    """query (batch, length, width), key and value perhaps packed behind it; a cache of past_key (batch, kv heads,
    length, head width) is as long as it may get, so its length bounds the keys."""
    tensors, heads = named(signature), signature.attribute("num_heads") or 1
    batch, queries, wide = tensors["query"].shape
    kv_heads = signature.attribute("kv_num_heads") or heads
    packed = "key" not in tensors
    width = wide // (heads + 2 * kv_heads) if packed else wide // heads
    keys = max(queries, tensors["past_key"].shape[2] if "past_key" in tensors else 0)
    sizes = Heads(batch * heads, batch * kv_heads, queries, keys, width, width)
    return _attend(signature, sizes, packed=packed)


@register("com.microsoft.Attention", "com.microsoft.QAttention", attributes=("given", "num_heads"))
def projected_attention(signature: Signature) -> Cost:
    """The projections of input (batch, length, K) by weights (K, 2 * width + value width) with their bias, then
    attention, whose result is as wide as the values."""
    tensors, stands, heads = named(signature), places(signature), signature.attribute("num_heads") or 1
    weights = next((name for name in ("weights", "weight") if name in tensors), None)
    if weights is None or len(tensors["input"].shape) != 3:
        return unknown(signature, "packed sequences: their lengths are data, not shapes")
    batch, length, depth = tensors["input"].shape
    columns = tensors[weights].shape[-1]
    wide, past = signature.outputs[0].shape[-1], tensors.get("past")
    width, value_width = (columns - wide) // 2 // heads, wide // heads
    keys = length + (past.shape[3] if past is not None else 0)
    sizes = Heads(batch * heads, batch * heads, length, keys, width, value_width)
    cached = INSIDE if past is None else (stands["past"],)
    products = [
        product_of(signature, (1, batch * length, depth, columns), stands["input"], stands[weights]),
        *formula.attended(signature, sizes, INSIDE, cached, cached, 0, chained=True),
    ]
    bias = Extra("bias", batch * length * columns * ("bias" in tensors))
    unread = {stands[name]: 0 for name in MASKS if name in stands}
    return contraction(signature, "attention", products, (bias, sizes.softmax), read=unread)


@register("onnx.LinearAttention", attributes=("given", "q_num_heads", "kv_num_heads", "update_rule"))
def linear_attention(signature: Signature) -> Cost:
    """Step by step on the vector lanes: the state (kv heads, d, dv) gains the outer product of key and value (2 per
    element), and each query head reads it (2). A decay scales the state (1); a delta rule reads it with the key first
    and scales what it adds (2, and 2 per value element)."""
    tensors = named(signature)
    heads, kv_heads = signature.attribute("q_num_heads") or 1, signature.attribute("kv_num_heads") or 1
    batch, steps, wide = tensors["query"].shape
    width, value_width = wide // heads, tensors["value"].shape[-1] // kv_heads
    rule = signature.attribute("update_rule") or "gated_delta"
    rule = rule.decode() if isinstance(rule, bytes) else rule
    state, turns = kv_heads * width * value_width, batch * steps
    extras = (
        Extra("state", turns * 2 * state, staged=True),
        Extra("read state", turns * 2 * heads * width * value_width, staged=True),
        Extra("decay", turns * state * ("gated" in rule), staged=True),
        Extra("delta", turns * (2 * state + 2 * kv_heads * value_width) * ("delta" in rule), staged=True),
    )
    return contraction(signature, "attention", (), extras)
