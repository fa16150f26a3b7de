"""Fused attention: QK^T and AV at 2 FLOPs per multiply-add, unmasked, and 5 per score for the softmax.

Query, key, value and a cache of past keys and values are read, the output written; scores and masks stay on chip.
"""

from __future__ import annotations

from simdevice.costs.aten.attention import SOFTMAX_FLOPS_PER_SCORE
from simdevice.costs.onnx._common import cost, named, unknown
from simdevice.costs.registry import register, streamed
from simdevice.records import Cost, Signature, TensorSpec

__all__: list[str] = []

_READ = ("Q", "K", "V", "query", "key", "value", "past_key", "past_value", "past")


def _attention(signature: Signature, scores: int, width: int, value_width: int, extra: int = 0) -> Cost:
    """`width` is a head's; `extra` counts what is fused besides."""
    flops = scores * (2 * (width + value_width) + SOFTMAX_FLOPS_PER_SCORE) + extra
    read = [t for name, t in named(signature).items() if name in _READ]
    return cost("attention", flops, read, signature.outputs[:1])


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
    given = named(signature)
    batch, heads, queries, width = _lengths(given["Q"], signature.attribute("q_num_heads") or 1)
    _, _, keys, _ = _lengths(given["K"], signature.attribute("kv_num_heads") or 1)
    *_, value_width = _lengths(given["V"], signature.attribute("kv_num_heads") or 1)
    keys += given["past_key"].shape[2] if "past_key" in given else 0
    return _attention(signature, batch * heads * queries * keys, width, value_width)


@register("com.microsoft.MultiHeadAttention", attributes=("given", "num_heads"))
def multi_head_attention(signature: Signature) -> Cost:
    """query (batch, length, width), or all three packed as (batch, length, heads, 3, head width)."""
    given, heads = named(signature), signature.attribute("num_heads") or 1
    query = given["query"]
    if len(query.shape) == 5:
        batch, queries, _, _, width = query.shape
        return _attention(signature, batch * heads * queries * queries, width, width)
    batch, queries, wide = query.shape
    key = given.get("key", query)
    if len(key.shape) == 5:  # key and value packed as (batch, length, heads, 2, head width)
        return _attention(signature, batch * heads * queries * key.shape[1], wide // heads, wide // heads)
    keys = key.shape[2] if len(key.shape) == 4 else key.shape[1]
    keys += given["past_key"].shape[2] if "past_key" in given else 0
    value = given.get("value", key)
    value_width = value.shape[-1] if len(value.shape) == 4 else value.shape[-1] // heads
    bias = query.numel + key.numel + value.numel if "bias" in given else 0
    return _attention(signature, batch * heads * queries * keys, wide // heads, value_width, bias)


@register("com.microsoft.GroupQueryAttention", attributes=("given", "num_heads", "kv_num_heads"))
def group_query_attention(signature: Signature) -> Cost:
    """query (batch, length, width); a cache of past_key (batch, kv heads, length, head width) is as long as it may
    get, so its length bounds the keys."""
    given, heads = named(signature), signature.attribute("num_heads") or 1
    batch, queries, wide = given["query"].shape
    kv_heads = signature.attribute("kv_num_heads") or heads
    packed = "key" not in given
    width = wide // (heads + 2 * kv_heads) if packed else wide // heads
    keys = max(queries, given["past_key"].shape[2] if "past_key" in given else 0)
    return _attention(signature, batch * heads * queries * keys, width, width)


@register("com.microsoft.Attention", "com.microsoft.QAttention", attributes=("given", "num_heads"))
def projected_attention(signature: Signature) -> Cost:
    """The projections of input (batch, length, K) by weights (K, 3 * width) with their bias, then attention."""
    given, heads = named(signature), signature.attribute("num_heads") or 1
    names = [n for n in ("weights", "weight") if n in given]
    if not names or len(given["input"].shape) != 3:
        return unknown(signature, "packed sequences: their lengths are data, not shapes")
    batch, length, depth = given["input"].shape
    columns = given[names[0]].shape[-1]
    width = columns // 3 // heads
    keys = length + (given["past"].shape[3] if "past" in given else 0)
    projections = batch * length * columns * (2 * depth + ("bias" in given))
    scores = batch * heads * length * keys
    return streamed(signature, "attention", projections + scores * (4 * width + SOFTMAX_FLOPS_PER_SCORE))


@register("onnx.LinearAttention", attributes=("given", "q_num_heads", "kv_num_heads", "update_rule"))
def linear_attention(signature: Signature) -> Cost:
    """Step by step: the state (kv heads, d, dv) gains the outer product of key and value (2 per element), and each
    query head reads it (2). A decay scales the state (1); a delta rule reads it with the key first and scales what
    it adds (2, and 2 per value element)."""
    given = named(signature)
    heads, kv_heads = signature.attribute("q_num_heads") or 1, signature.attribute("kv_num_heads") or 1
    batch, steps, wide = given["query"].shape
    width, value_width = wide // heads, given["value"].shape[-1] // kv_heads
    rule = signature.attribute("update_rule") or "gated_delta"
    rule = rule.decode() if isinstance(rule, bytes) else rule
    state = kv_heads * width * value_width
    per_step = 2 * state + 2 * heads * width * value_width
    per_step += state if "gated" in rule else 0
    per_step += 2 * state + 2 * kv_heads * value_width if "delta" in rule else 0
    return streamed(signature, "attention", batch * steps * per_step)
