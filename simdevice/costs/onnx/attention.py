"""Attention operators of ONNX and ONNX Runtime: where query, key, value and caches stand, and how they are laid out.

Query, key, value and a cache of past keys and values are read, the output written; scores and masks stay on chip.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from simdevice.costs.arithmetic import attention as formula
from simdevice.costs.arithmetic import contraction, unknown
from simdevice.costs.arithmetic.attention import Heads
from simdevice.costs.arithmetic.basics import product_of, rows_of
from simdevice.costs.onnx._common import microsoft, named, number, places
from simdevice.costs.registry import register
from simdevice.records import INSIDE, Cost, Extra, Signature, TensorSpec
from simdevice.records.dtypes import nbytes

__all__: list[str] = []

_ROLES = (("Q", "query"), ("K", "key", "past_key", "past"), ("V", "value", "past_value", "past"))
"""Formal names of query, key and value, caches included."""


MASKS = ("mask_index", "attention_bias", "past_sequence_length", "beam_width", "cache_indirection")
"""What an operator reads of these is not counted, as of every mask."""


def _attend(
    signature: Signature,
    heads: Heads,
    *,
    packed: bool = False,
    bias: int = 0,
    extras: Iterable[Extra] = (),
    read: Mapping[int, int] | None = None,
) -> Cost:
    """`packed`: key and value lie in the query's tensor too, or the value in the key's. `bias`: additions of one.
    `read`: bytes of inputs that are not read whole."""
    stands = places(signature)
    query, key, value = (tuple(stands[name] for name in names if name in stands) for names in _ROLES)
    if packed:
        key = key if "key" in stands else (*query, *key)
        value = value if "value" in stands else (*key, *(place for place in value if place not in key))
    beside = (stands["bias"],) if bias else ()
    named_extras = (Extra("bias", bias), *extras)
    return formula.attend(signature, heads, query, key, value, extras=named_extras, beside=beside, read=read)


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


@register(
    "com.microsoft.GroupQueryAttention",
    attributes=("given", "num_heads", "kv_num_heads", "total_sequence_length", "do_rotary"),
)
def group_query_attention(signature: Signature) -> Cost:
    """query (batch, length, width), key and value perhaps packed behind it.

    Keys are past and new ones: total_sequence_length says how many where it is known, else what present's length says
    (ContribOperators.md: past + new, or as long as the cache may get where past and present share a buffer). Of a cache
    that is longer, only the past keys are read. `do_rotary` turns queries and keys: 3 FLOPs per element, and a row of
    each table per position.
    """
    tensors, stands, heads = named(signature), places(signature), signature.attribute("num_heads") or 1
    batch, queries, wide = tensors["query"].shape
    kv_heads = signature.attribute("kv_num_heads") or heads
    packed = "key" not in tensors
    width = wide // (heads + 2 * kv_heads) if packed else wide // heads
    cached = tensors["past_key"].shape[2] if "past_key" in tensors else 0
    total = number(signature, "total_sequence_length")
    keys = total or (signature.outputs[1].shape[2] if len(signature.outputs) > 1 else max(queries, cached))
    sizes = Heads(batch * heads, batch * kv_heads, queries, keys, width, width)
    past = min(cached, max(keys - queries, 0))
    read = {
        stands[name]: nbytes((batch, kv_heads, past, width), tensors[name].dtype)
        for name in ("past_key", "past_value")
        if name in tensors
    }
    turned = batch * queries * (heads + kv_heads) * width
    rotary, rows = [], {}
    if signature.attribute("do_rotary") and "cos_cache" in tensors:
        rotary = [Extra("rotary", 3 * turned, staged=True)]
        rows = {stands[name]: rows_of(tensors[name], batch * queries) for name in ("cos_cache", "sin_cache")}
    return _attend(signature, sizes, packed=packed, extras=rotary, read=read | rows)


@register(
    "com.microsoft.DecoderMaskedMultiHeadAttention",
    attributes=("given", "num_heads", "past_sequence_length", "past_present_share_buffer"),
)
def decoder_attention(signature: Signature) -> Cost:
    """One new query (batch, 1, width), key and value perhaps packed behind it; keys of a cross attention are (batch,
    heads, length, head width), those of a self attention the past's and the new one. A shared buffer is as long as the
    cache may get: past_sequence_length says how much of it is read, where it is known."""
    tensors, stands, heads = named(signature), places(signature), signature.attribute("num_heads") or 1
    batch, queries, wide = tensors["query"].shape
    packed, key = "key" not in tensors, tensors.get("key")
    value_wide = signature.outputs[0].shape[-1]
    width, value_width = ((wide - value_wide) // 2 if packed else wide) // heads, value_wide // heads
    read: dict[int, int] = {}
    if key is not None and len(key.shape) == 4:
        keys = key.shape[2]
    else:
        past = past_length(signature, tensors["past_key"].shape[2]) if "past_key" in tensors else 0
        keys = past + queries
        for name, per_head in (("past_key", width), ("past_value", value_width)):
            if name in tensors:
                read[stands[name]] = nbytes((batch, heads, past, per_head), tensors[name].dtype)
    bias = tensors["query"].numel + (0 if packed else 2 * tensors["query"].numel) if "bias" in tensors else 0
    sizes = Heads(batch * heads, batch * heads, queries, keys, width, value_width)
    return _attend(signature, sizes, packed=packed, bias=bias, read=read)


def past_length(signature: Signature, cached: int) -> int:
    """Past keys in a cache: all, but where past and present share a buffer that has room for the new one."""
    if not signature.attribute("past_present_share_buffer"):
        return cached
    known = number(signature, "past_sequence_length")
    return max(cached - 1, 0) if known is None else min(known, cached)


@register(
    *microsoft("Attention DecoderMaskedSelfAttention QAttention"),
    attributes=("given", "num_heads", "past_sequence_length", "past_present_share_buffer"),
)
def projected_attention(signature: Signature) -> Cost:
    """The projections of input (batch, length, K) by weights (K, 2 * width + value width) with their bias, then
    attention, whose result is as wide as the values; past is (2, batch, heads, length, head width)."""
    tensors, stands, heads = named(signature), places(signature), signature.attribute("num_heads") or 1
    weights = next((name for name in ("weights", "weight") if name in tensors), None)
    if weights is None or len(tensors["input"].shape) != 3:
        return unknown(signature, "packed sequences: their lengths are data, not shapes")
    batch, length, depth = tensors["input"].shape
    columns = tensors[weights].shape[-1]
    wide, past = signature.outputs[0].shape[-1], tensors.get("past")
    width, value_width = (columns - wide) // 2 // heads, wide // heads
    before = past_length(signature, past.shape[3]) if past is not None else 0
    sizes = Heads(batch * heads, batch * heads, length, before + length, width, value_width)
    cached = INSIDE if past is None else (stands["past"],)
    products = [
        product_of(signature, (1, batch * length, depth, columns), stands["input"], stands[weights]),
        *formula.attended(signature, sizes, INSIDE, cached, cached, 0, chained=True),
    ]
    bias = Extra("bias", batch * length * columns * ("bias" in tensors))
    read = {stands[name]: 0 for name in MASKS if name in stands}
    if past is not None:
        read[stands["past"]] = nbytes((batch, heads, before, width + value_width), past.dtype)
    return contraction(signature, "attention", products, (bias, sizes.softmax), read=read)


@register(
    "onnx.LinearAttention",
    "com.microsoft.LinearAttention",
    attributes=("given", "q_num_heads", "kv_num_heads", "update_rule"),
)
def linear_attention(signature: Signature) -> Cost:
    """Step by step on the vector lanes: the state (kv heads, d, dv) gains the outer product of key and value (2 per
    element), and each query head reads it (2), or each key head where those are more. A decay scales the state (1); a
    delta rule reads it with the key first and scales what it adds (2, and 2 per value element)."""
    tensors = named(signature)
    heads, kv_heads = signature.attribute("q_num_heads") or 1, signature.attribute("kv_num_heads") or 1
    batch, steps, wide = tensors["query"].shape
    width, value_width = wide // heads, tensors["value"].shape[-1] // kv_heads
    readers = max(heads, kv_heads)
    rule = signature.attribute("update_rule") or "gated_delta"
    rule = rule.decode() if isinstance(rule, bytes) else rule
    state, turns = kv_heads * width * value_width, batch * steps
    extras = (
        Extra("state", turns * 2 * state, staged=True),
        Extra("read state", turns * 2 * readers * width * value_width, staged=True),
        Extra("decay", turns * state * ("gated" in rule), staged=True),
        Extra("delta", turns * (2 * state + 2 * kv_heads * value_width) * ("delta" in rule), staged=True),
    )
    return contraction(signature, "attention", (), extras)
