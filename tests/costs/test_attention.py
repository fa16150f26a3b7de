"""Fused attention: two products over all scores and 5 per score; fused blocks equal the operators they fuse."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import scaled_dot_product_attention as sdpa
from torch.utils.flop_counter import sdpa_backward_flop_count, sdpa_flop_count

from simdevice.costs import Costs
from simdevice.records import Signature, TensorSpec

SIZES = st.integers(1, 9)


def cost_of(name, inputs, outputs):
    specs = [tuple(TensorSpec(s, "float32") for s in shapes) for shapes in (inputs, outputs)]
    return Costs()(Signature(name, *specs))


def test_llama_3_8b_layer_costs_the_published_figure(cost):
    """2,048 tokens, 32 query heads and 8 key heads of 128."""
    query, key = (1, 32, 2048, 128), (1, 8, 2048, 128)
    one = cost(
        "aten._scaled_dot_product_flash_attention_for_cpu", [query, key, key], [query, (1, 32, 2048)], "bfloat16"
    )
    # 32 * 2048^2 scores * (2*128 + 2*128 + 5) = 69,390,565,376; 32 layers of it are 2,220,498,092,032
    # (Torch_Sim_Frontend, examples/results.md)
    assert one.flops * 32 == 2_220_498_092_032
    # query and output 8,388,608 elements each, key and value 2,097,152 each, 2 bytes; the log-sums are not counted
    assert (one.bytes_read, one.bytes_written) == (25_165_824, 16_777_216)


@given(batch=SIZES, heads=SIZES, queries=SIZES, keys=SIZES, width=SIZES, value_width=SIZES)
def test_forward_is_flop_counters_products_and_5_per_score(batch, heads, queries, keys, width, value_width):
    query, key, value = (batch, heads, queries, width), (batch, heads, keys, width), (batch, heads, keys, value_width)
    ours = cost_of("aten._scaled_dot_product_efficient_attention", [query, key, value], [(*query[:3], value_width)])
    assert ours.flops == sdpa_flop_count(query, key, value) + 5 * batch * heads * queries * keys


@given(batch=SIZES, heads=SIZES, queries=SIZES, keys=SIZES, width=SIZES, value_width=SIZES)
def test_backward_is_flop_counters_products_and_two_softmaxes(batch, heads, queries, keys, width, value_width):
    query, key, value = (batch, heads, queries, width), (batch, heads, keys, width), (batch, heads, keys, value_width)
    grad = (*query[:3], value_width)
    ours = cost_of("aten._scaled_dot_product_flash_attention_backward", [grad, query, key, value], [query, key, value])
    scores = batch * heads * queries * keys
    assert ours.flops == sdpa_backward_flop_count(grad, query, key, value) + 10 * scores


def test_cpu_attention_is_one_operator_each_way(ops):
    query, key, value = (torch.ones(2, 4, 8, 16, requires_grad=True) for _ in range(3))
    rows = [o for o in ops(lambda: sdpa(query, key, value).sum().backward()) if o.category == "attention"]
    scores = 2 * 4 * 8 * 8
    assert [(o.name, o.flops) for o in rows] == [
        ("aten._scaled_dot_product_flash_attention_for_cpu", scores * (2 * 16 + 2 * 16 + 5)),
        ("aten._scaled_dot_product_flash_attention_for_cpu_backward", scores * (2 * 16 * 5 + 10)),
    ]


def test_a_mask_moves_no_counted_bytes(op):
    query = torch.ones(1, 2, 4, 8)
    plain, masked = op(sdpa, query, query, query), op(sdpa, query, query, query, torch.zeros(4, 4))
    assert masked.cost == plain.cost


def test_length_before_heads_costs_the_same_as_heads_before_length(cost):
    by_head, by_length = (2, 4, 8, 16), (2, 8, 4, 16)
    assert (
        cost("aten._flash_attention_forward", [by_length] * 3, [by_length]).flops
        == cost("aten._scaled_dot_product_flash_attention", [by_head] * 3, [by_head]).flops
    )


def test_packed_sequences_are_unknown_and_say_why(cost):
    one = cost("aten._flash_attention_forward", [(30, 4, 16)] * 3 + [(5,)], [(30, 4, 16)])
    assert (one.category, one.flops) == ("unknown", None)
    assert one.reason == "packed sequences: their lengths are data, not shapes"


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_encoder_fast_path_costs_what_its_layers_cost_one_by_one(ops, norm_first, activation):
    layer = torch.nn.TransformerEncoderLayer(
        32, 4, dim_feedforward=48, batch_first=True, norm_first=norm_first, activation=activation
    ).eval()
    source = torch.randn(2, 6, 32)
    with torch.no_grad():
        (fused,) = ops(layer, source)
    assert fused.name == "aten._transformer_encoder_layer_fwd"
    slow = ops(layer, source)  # gradients are on, so the fast path is off
    assert len(slow) > 8
    assert fused.flops == sum(o.flops for o in slow)


def test_multi_head_fast_path_costs_what_its_parts_cost(ops):
    attention = torch.nn.MultiheadAttention(32, 4, batch_first=True).eval()
    source = torch.randn(2, 6, 32)
    with torch.no_grad():
        (fused,) = ops(attention, source, source, source, need_weights=False)
    assert fused.name == "aten._native_multi_head_attention"
    assert fused.flops == sum(o.flops for o in ops(attention, source, source, source, need_weights=False))
