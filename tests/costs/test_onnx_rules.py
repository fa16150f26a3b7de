"""ONNX rules by arithmetic; the same computation as PyTorch's operators costs the same."""

from __future__ import annotations

from typing import Any

import pytest

from simdevice.costs import Costs
from simdevice.records import Cost, Signature, TensorSpec


def t(*shape: int, dtype: str = "float32", weight: bool = False) -> TensorSpec:
    return TensorSpec(shape, dtype, weight)


def cost(name: str, inputs: list[TensorSpec], outputs: list[TensorSpec], **attributes: Any) -> Cost:
    name = name if "." in name else f"onnx.{name}"
    return Costs()(Signature(name, tuple(inputs), tuple(outputs), tuple(attributes.items())))


@pytest.mark.parametrize(
    ("found", "flops", "category"),
    [
        # 2 x 5 x 7 outputs, 2 FLOPs for each of 3
        (cost("MatMul", [t(2, 5, 3), t(3, 7)], [t(2, 5, 7)]), 2 * 5 * 7 * 2 * 3, "matmul"),
        (cost("Gemm", [t(5, 3), t(3, 7), t(7)], [t(5, 7)]), 5 * 7 * (2 * 3 + 1), "matmul"),
        (cost("Gemm", [t(3, 5), t(3, 7)], [t(5, 7)], transA=1), 5 * 7 * 2 * 3, "matmul"),
        (cost("Einsum", [t(4, 5, 3), t(4, 3, 7)], [t(4, 5, 7)], equation="bik,bkj->bij"), 4 * 5 * 7 * 3 * 2, "matmul"),
        (cost("Einsum", [t(4, 5), t(4, 5)], [t(4, 5)], equation="ij,ij->ij"), 20, "elementwise"),
        (cost("Einsum", [t(4, 5)], [t(4)], equation="...i->..."), 20, "reduction"),
        (cost("Einsum", [t(4, 5)], [t(5, 4)], equation="ij->ji"), 0, "movement"),
        # output 1 x 8 x 6 x 6, each of 4 channels x 3 x 3, and a bias
        (
            cost("Conv", [t(1, 4, 8, 8), t(8, 4, 3, 3), t(8)], [t(1, 8, 6, 6)], group=1),
            288 * (2 * 36 + 1),
            "convolution",
        ),
        (cost("Conv", [t(1, 4, 8, 8), t(8, 2, 3, 3)], [t(1, 8, 6, 6)], group=2), 288 * 2 * 18, "convolution"),
        # 1 x 4 x 8 x 8 inputs, each scattered over 8 channels x 2 x 2
        (
            cost("ConvTranspose", [t(1, 4, 8, 8), t(4, 8, 2, 2), t(8)], [t(1, 8, 16, 16)], given=("X", "W", "B")),
            256 * 2 * 32 + 2048,
            "convolution",
        ),
        # 5 x 3 points of 4 inputs and 8 outputs: 2 x 36 products; each operand mixed from 4 neighbours (8) and masked
        (
            cost(
                "DeformConv",
                [t(1, 4, 8, 8), t(8, 4, 3, 3), t(1, 18, 6, 6)],
                [t(1, 8, 6, 6)],
                given=("X", "W", "offset"),
            ),
            288 * 72 + 36 * 4 * 9 * 8,
            "convolution",
        ),
        (cost("Relu", [t(4, 5)], [t(4, 5)]), 20, "elementwise"),
        (cost("Sum", [t(4, 5)] * 3, [t(4, 5)]), 40, "elementwise"),
        (cost("SwiGLU", [t(4, 5)] * 2, [t(4, 5)]), 40, "elementwise"),
        (cost("ReduceMean", [t(4, 5)], [t(4)]), 20, "reduction"),
        (cost("MaxPool", [t(1, 2, 8, 8)], [t(1, 2, 4, 4)]), 128, "pooling"),
        (cost("Softmax", [t(4, 5)], [t(4, 5)]), 100, "softmax"),
        (cost("LayerNormalization", [t(4, 5), t(5), t(5)], [t(4, 5)]), 100, "norm"),
        # 4 bytes x (4 x 5 + 4 x 5): a transposition is a copy
        (cost("Transpose", [t(4, 5)], [t(5, 4)]), 0, "movement"),
        (cost("Reshape", [t(4, 5)], [t(20)]), 0, "view"),
        (cost("Cast", [t(4, 5)], [t(4, 5)]), 0, "view"),
        (cost("Cast", [t(4, 5)], [t(4, 5, dtype="int64")]), 0, "movement"),
        (cost("Dropout", [t(4, 5)], [t(4, 5)]), 0, "view"),
        (cost("Dropout", [t(4, 5)], [t(4, 5)], training_mode=True), 20, "elementwise"),
        # 20 elements, a heap of 3
        (cost("TopK", [t(4, 5)], [t(4, 3), t(4, 3, dtype="int64")], k=(3,)), 20 * (1 + 2), "sort"),
        # 2 x 2 taps of 2 FLOPs
        (cost("Resize", [t(1, 2, 4, 4)], [t(1, 2, 8, 8)], mode="linear"), 128 * 8, "pooling"),
        (cost("Resize", [t(1, 2, 4, 4)], [t(1, 2, 8, 8)], mode="nearest"), 0, "movement"),
        (cost("Resize", [t(1, 2, 4, 4)], [t(1, 2, 8, 4)], mode="cubic"), 64 * 8, "pooling"),
        # real lines of 16: half of 5 x 16 x 4
        (cost("DFT", [t(3, 16, 1)], [t(3, 9, 2)], onesided=1), 3 * 5 * 16 * 4 // 2, "fft"),
        (cost("QuantizeLinear", [t(4, 5), t(), t(dtype="int8")], [t(4, 5, dtype="int8")]), 20, "elementwise"),
        (cost("DynamicQuantizeLinear", [t(4, 5)], [t(4, 5, dtype="uint8"), t(), t(dtype="uint8")]), 40, "elementwise"),
        (cost("ScatterElements", [t(4, 5), t(2, 5), t(2, 5)], [t(4, 5)], reduction="add"), 10, "gather"),
        (cost("ScatterElements", [t(4, 5), t(2, 5), t(2, 5)], [t(4, 5)], reduction="none"), 0, "gather"),
        (cost("Det", [t(2, 3, 3)], [t(2)]), 2 * (18 + 3), "linalg"),
        # x @ w of a block of (4, 16) by 16 x 8 packed values
        (
            cost(
                "com.microsoft.MatMulNBits",
                [t(4, 16), t(8, 1, 8, dtype="uint8"), t(8)],
                [t(4, 8)],
                K=16,
                given=("A", "B", "scales"),
            ),
            4 * 8 * 2 * 16,
            "matmul",
        ),
        (
            cost("com.microsoft.FusedConv", [t(1, 4, 8, 8), t(8, 4, 3, 3)], [t(1, 8, 6, 6)], activation="Relu"),
            288 * 73,
            "convolution",
        ),
        (
            cost(
                "com.microsoft.SkipLayerNormalization",
                [t(4, 5)] * 2 + [t(5)],
                [t(4, 5)],
                given=("input", "skip", "gamma"),
            ),
            6 * 20,
            "norm",
        ),
    ],
)
def test_flops_by_arithmetic(found: Cost, flops: int, category: str) -> None:
    assert (found.flops, found.category) == (flops, category)


def test_a_quantised_product_reads_its_scales_and_counts_its_products() -> None:
    byte, scale = t(8, 16, dtype="int8"), t()
    weight = t(16, 4, dtype="int8", weight=True)
    zero = t(dtype="int8")
    found = cost("QLinearMatMul", [byte, scale, zero, weight, scale, zero, scale, zero], [t(8, 4, dtype="int8")])
    assert found.flops == 2 * 8 * 4 * 16
    # 128 + 64 bytes of operands, three scales of 4 and three zero points of 1
    assert (found.bytes_read, found.bytes_written, found.weight_bytes) == (128 + 64 + 15, 32, 64)
    inputs = [t(1, 4, 8, 8, dtype="uint8"), scale, zero, t(8, 4, 3, 3, dtype="int8"), scale, zero, scale, zero]
    out = [t(1, 8, 6, 6, dtype="uint8")]
    assert cost("QLinearConv", inputs, out, group=1).flops == 288 * 72
    assert cost("QLinearConv", [*inputs, t(8, dtype="int32")], out, group=1).flops == 288 * 73


def test_a_look_up_reads_its_rows_and_never_the_table() -> None:
    found = cost("Gather", [t(1000, 64, weight=True), t(3, dtype="int64")], [t(3, 64)])
    assert (found.bytes_read, found.weight_bytes, found.flops) == (3 * 64 * 4 + 3 * 8, 3 * 64 * 4, 0)


@pytest.mark.parametrize("layout", ["heads", "packed"])
def test_attention_counts_scores_and_reads_no_mask(layout: str) -> None:
    # 2 x 4 heads x 6 queries x 9 keys (3 of them past), of width 8: QK^T, AV and 5 per score
    scores = 2 * 4 * 6 * 9
    if layout == "heads":
        q, k, v, y = t(2, 4, 6, 8), t(2, 2, 6, 8), t(2, 2, 6, 8), t(2, 4, 6, 8)
    else:
        q, k, v, y = t(2, 6, 32), t(2, 6, 16), t(2, 6, 16), t(2, 6, 32)
    past, mask = t(2, 2, 3, 8), t(6, 9)
    given = ("Q", "K", "V", "attn_mask", "past_key", "past_value")
    found = cost("Attention", [q, k, v, mask, past, past], [y], given=given, q_num_heads=4, kv_num_heads=2)
    assert (found.category, found.flops) == ("attention", scores * (2 * (8 + 8) + 5))
    assert found.bytes_read == q.nbytes + k.nbytes + v.nbytes + 2 * past.nbytes
    assert found.bytes_written == y.nbytes


def test_onnx_and_aten_attention_cost_the_same() -> None:
    q, kv = t(2, 4, 6, 8), t(2, 4, 9, 8)
    ours = cost("Attention", [q, kv, kv], [q], given=("Q", "K", "V"))
    theirs = cost("aten.scaled_dot_product_attention", [q, kv, kv], [q])
    assert ours == theirs


def test_multi_head_attention_is_its_parts() -> None:
    x = t(2, 6, 32)
    scores = 2 * 4 * 6 * 6
    core = scores * (2 * (8 + 8) + 5)
    given = ("query", "key", "value")
    assert cost("com.microsoft.MultiHeadAttention", [x] * 3, [x], given=given, num_heads=4).flops == core
    weights, bias = t(32, 96, weight=True), t(96, weight=True)
    whole = cost("com.microsoft.Attention", [x, weights, bias], [x], given=("input", "weights", "bias"), num_heads=4)
    # the projections of 12 rows by 32 x 96, with a bias
    assert whole.flops == core + 12 * 96 * (2 * 32 + 1)


def test_an_lstm_costs_what_pytorchs_costs() -> None:
    # 5 steps of 3 sequences, 16 features, 32 units: per step 2 per weight, 1 per bias, 13 per unit
    inputs = [t(5, 3, 16), t(1, 128, 16), t(1, 128, 32), t(1, 256)]
    ours = cost("LSTM", inputs, [t(5, 1, 3, 32)], given=("X", "W", "R", "B"))
    source = [t(5, 3, 16), t(1, 3, 32), t(1, 3, 32), t(128, 16), t(128, 32), t(128), t(128)]
    theirs = cost("aten.lstm", source, [t(5, 3, 32)])
    assert ours.flops == theirs.flops == 15 * (2 * 128 * 48 + 256 + 13 * 32)


def test_a_gru_in_both_directions() -> None:
    inputs = [t(5, 3, 16), t(2, 96, 16), t(2, 96, 32), t(2, 192)]
    found = cost("GRU", inputs, [t(5, 2, 3, 32)], given=("X", "W", "R", "B"))
    assert found.flops == 15 * 2 * (2 * 96 * 48 + 192 + 10 * 32)


def test_linear_attention_by_the_step() -> None:
    # a state of 2 heads x 8 x 8; per step: outer product (2 per element), read by 4 query heads (2), decay (1),
    # the delta rule reads with the key (2 per element) and scales what it adds (2 per value element)
    state, read, value = 2 * 64, 4 * 64, 2 * 8
    per_step = 2 * state + 2 * read + state + 2 * state + 2 * value
    inputs = [t(3, 5, 32), t(3, 5, 16), t(3, 5, 16)]
    attributes = {"given": ("query", "key", "value"), "q_num_heads": 4, "kv_num_heads": 2, "update_rule": "gated_delta"}
    assert cost("LinearAttention", inputs, [t(3, 5, 32)], **attributes).flops == 15 * per_step


def test_an_adaptive_region_is_unknown_and_a_fixed_one_is_not() -> None:
    inputs, out = [t(1, 2, 8, 8), t(3, 4), t(3, dtype="int64")], [t(3, 2, 4, 4)]
    assert cost("RoiAlign", inputs, out, sampling_ratio=0).flops is None
    assert cost("RoiAlign", inputs, out, sampling_ratio=2).flops == 96 * 4 * 8


def test_four_bit_weights_have_their_size() -> None:
    weight = t(64, 32, dtype="int4", weight=True)
    found = cost("DequantizeLinear", [weight, t(32, weight=True)], [t(64, 32)], axis=1)
    assert (found.flops, found.weight_bytes) == (2048, 1024 + 128)


@pytest.mark.parametrize(("past", "keys"), [(64, 64), (2, 4)])
def test_a_cache_as_long_as_it_may_get_bounds_the_keys_and_so_do_new_ones(past: int, keys: int) -> None:
    # 2 query heads over 1 key head of 8; 4 queries: 2 x 4 x keys scores of 2 x (8 + 8) + 5
    inputs = [t(1, 4, 16), t(1, 4, 8), t(1, 4, 8), t(1, 1, past, 8), t(1, 1, past, 8)]
    names = ("query", "key", "value", "past_key", "past_value")
    found = cost("com.microsoft.GroupQueryAttention", inputs, [t(1, 4, 16)], given=names, num_heads=2, kv_num_heads=1)
    assert found.flops == 2 * 4 * keys * 37


def test_keys_of_an_attention_with_a_cache_are_past_and_present() -> None:
    # 3 past and 5 new keys: 1 x 2 x 5 x 8 scores of 2 x (4 + 4) + 5
    inputs = [t(1, 2, 5, 4), t(1, 2, 5, 4), t(1, 2, 5, 4), t(1, 2, 3, 4), t(1, 2, 3, 4)]
    names = ("Q", "K", "V", "past_key", "past_value")
    assert cost("Attention", inputs, [t(1, 2, 5, 4)], given=names).flops == 2 * 5 * 8 * 21


def test_a_filter_widened_by_a_ratio_that_does_not_divide_counts_the_part_of_a_tap() -> None:
    # 10 places to 4: a linear filter of 2 taps is 2 x 10 / 4 = 5 wide; to 3 it is 6.67, so 7
    for after, taps in ((4, 5), (3, 7)):
        found = cost("Resize", [t(1, 1, 10)], [t(1, 1, after)], mode="linear", antialias=1)
        assert found.flops == 2 * taps * after
    # enlarging widens nothing
    assert cost("Resize", [t(1, 1, 3)], [t(1, 1, 10)], mode="linear", antialias=1).flops == 2 * 2 * 10
    # PyTorch's: 7 columns to 4: 2 x 7 / 4 = 3.5, so 4 taps, first along rows of 5, then 5 rows to 3: 3.33, so 4
    found = cost("aten._upsample_bilinear2d_aa", [t(1, 1, 5, 7)], [t(1, 1, 3, 4)])
    assert found.flops == 2 * (5 * 4 * 4 + 3 * 4 * 4)


def test_biases_and_activations_of_fused_products() -> None:
    # (4, 6) x (6, 5): 240, and 20 for a bias, 20 for an activation
    a, b, bias, y = t(4, 6), t(6, 5), t(5), [t(4, 5)]
    assert cost("com.microsoft.GemmFastGelu", [a, b], y).flops == 260
    assert cost("com.microsoft.GemmFastGelu", [a, b, bias], y).flops == 280
    assert cost("com.microsoft.FusedGemm", [t(6, 4), t(5, 6), bias], y, transA=1, transB=1).flops == 280
    names = ("A", "B", "b_scale", "bias")
    assert cost("com.microsoft.DynamicQuantizeMatMul", [a, b, t(5)], y, given=names[:3]).flops == 240
    assert cost("com.microsoft.DynamicQuantizeMatMul", [a, b, t(5), bias], y, given=names).flops == 260
    # A, its scale and zero point, then B: transposed, (5, 6)
    given = ("A", "a_scale", "a_zero_point", "B", "b_scale", "b_zero_point", "C")
    inputs = [a, t(), t(), t(5, 6), t(), t(), bias]
    assert cost("com.microsoft.QGemm", inputs, y, given=given, transB=1).flops == 260
    without = cost("com.microsoft.QGemm", inputs[:6], y, given=given[:6], transB=1)
    assert [(p.a, p.b) for p in without.products] == [((0,), (3,))]
    assert without.flops == 240


def test_packed_weights_are_as_deep_as_they_say_and_biased() -> None:
    # 6 rows of 64 by 32 columns of 2 blocks x 16 bytes: 4 bits each
    inputs = [t(2, 3, 64), t(32, 2, 16, dtype="uint8"), t(64), t(32, dtype="uint8"), t(32)]
    given = ("A", "B", "scales", "zero_points", "bias")
    one = cost("com.microsoft.MatMulNBits", inputs, [t(2, 3, 32)], given=given, K=64, N=32)
    assert [(p.batch, p.m, p.k, p.n, p.b_bits) for p in one.products] == [(1, 6, 64, 32, 4)]
    assert one.flops == 2 * 6 * 64 * 32 + 192


def test_a_bias_before_a_softmax_is_one_more_per_element() -> None:
    assert cost("com.microsoft.BiasSoftmax", [t(4, 5), t(5)], [t(4, 5)]).flops == 6 * 20


def test_words_are_convolved_and_the_greatest_is_kept() -> None:
    # 3 x 7 characters; 8 channels, each of 4 characters x 5: a bias and a comparison for each of 168
    inputs = [t(3, 7, dtype="int32"), t(8, 1, 4, 5), t(8), t(100, 5)]
    one = cost("com.microsoft.WordConvEmbedding", inputs, [t(3, 8)])
    assert [(p.batch, p.m, p.k, p.n) for p in one.products] == [(1, 21, 20, 8)]
    assert one.flops == 2 * 21 * 20 * 8 + 2 * 168
