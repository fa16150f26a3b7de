"""Rules of ONNX Runtime's attention, rotary tables and experts by arithmetic."""

from __future__ import annotations

from typing import Any

import pytest

from simdevice.costs import Costs
from simdevice.records import Cost, Signature, TensorSpec

M = "com.microsoft."


def t(*shape: int, dtype: str = "float32", weight: bool = False) -> TensorSpec:
    return TensorSpec(shape, dtype, weight)


def cost(name: str, inputs: list[TensorSpec], outputs: list[TensorSpec], **attributes: Any) -> Cost:
    return Costs()(Signature(name, tuple(inputs), tuple(outputs), tuple(attributes.items())))


def sizes(one: Cost) -> list[tuple[int, int, int, int]]:
    return [(p.batch, p.m, p.k, p.n) for p in one.products]


GROUPED = ("query", "key", "value", "past_key", "past_value")


def grouped(past: int, present: int | None, *, new: int = 1, **attributes: Any) -> Cost:
    """4 query heads over 2 key heads of 8."""
    cache = t(1, 2, past, 8)
    inputs = [t(1, new, 32), t(1, new, 16), t(1, new, 16), cache, cache]
    outputs = [t(1, new, 32)] + [t(1, 2, present, 8)] * (2 if present is not None else 0)
    return cost(M + "GroupQueryAttention", inputs, outputs, given=GROUPED, num_heads=4, kv_num_heads=2, **attributes)


def test_keys_are_past_and_new_where_present_says_so() -> None:
    # 4 heads x 3 new queries x (7 + 3) keys, 2 x (8 + 8) + 5 each
    one = grouped(7, 10, new=3)
    assert one.flops == 4 * 3 * 10 * 37
    # query and result 3 x 32, key and value 3 x 16 each, caches 2 x 7 x 8 each
    assert one.bytes_read == 4 * (96 + 2 * 48 + 2 * 112)
    # a buffer for 64 that is shared: as long as it may get, unless the total is known
    assert grouped(64, 64).flops == 4 * 64 * 37
    known = grouped(64, 64, total_sequence_length=10)
    assert known.flops == 4 * 10 * 37
    # 9 past keys of the buffer are read: 2 x 9 x 8 each
    assert known.bytes_read == 4 * (32 + 2 * 16 + 2 * 144)
    assert grouped(64, 64, new=10, total_sequence_length=(10,)).bytes_read == 4 * (320 + 2 * 160)


def test_rotary_inside_an_attention_reads_a_row_per_position() -> None:
    names = (*GROUPED, "cos_cache", "sin_cache")
    table = t(4096, 4, weight=True)
    inputs = [t(1, 1, 32), t(1, 1, 16), t(1, 1, 16), t(1, 2, 7, 8), t(1, 2, 7, 8), table, table]
    outputs = [t(1, 1, 32), t(1, 2, 8, 8), t(1, 2, 8, 8)]
    sizes = {"num_heads": 4, "kv_num_heads": 2, "given": names}
    plain, turned = (cost(M + "GroupQueryAttention", inputs, outputs, do_rotary=r, **sizes) for r in (0, 1))
    # 6 heads of 8: 3 per element; a row of 4 of each table
    assert (turned.flops or 0) - (plain.flops or 0) == 3 * 48
    assert (plain.weight_bytes, turned.weight_bytes) == (0, 2 * 16)


@pytest.mark.parametrize(
    ("name", "given", "shape", "picked"),
    [
        # one token of 32 heads of 128 from tables of 131,072 positions
        (M + "RotaryEmbedding", ("input", "position_ids", "cos_cache", "sin_cache"), (1, 1, 4096), 1),
        (M + "RotaryEmbedding", ("input", "position_ids", "cos_cache", "sin_cache"), (2, 32, 5, 128), 10),
        ("onnx.RotaryEmbedding", ("X", "cos_cache", "sin_cache", "position_ids"), (2, 32, 5, 128), 10),
    ],
)
def test_rotary_reads_the_rows_it_picks(name: str, given: tuple[str, ...], shape: tuple[int, ...], picked: int) -> None:
    source, table = t(*shape), t(131_072, 64, weight=True)
    ids = t(shape[0], picked // shape[0], dtype="int64")
    tensors = {"cos_cache": table, "sin_cache": table, "position_ids": ids}
    one = cost(name, [source, *(tensors[n] for n in given[1:])], [source], given=given, num_heads=32)
    assert one.weight_bytes == 2 * picked * 64 * 4
    assert one.bytes_read == source.nbytes + ids.nbytes + 2 * picked * 64 * 4
    assert one.flops == 3 * source.numel


def test_rotary_turns_a_part_of_a_head_and_reads_no_more_rows_than_there_are() -> None:
    # 2 of 8 elements of a head are turned; 20 positions in a table of 16
    names = ("input", "position_ids", "cos_cache", "sin_cache")
    inputs = [t(4, 5, 64), t(4, 5, dtype="int64"), t(16, 1, weight=True), t(16, 1, weight=True)]
    one = cost(M + "RotaryEmbedding", inputs, [t(4, 5, 64)], given=names, num_heads=8)
    assert (one.flops, one.weight_bytes) == (3 * 4 * 5 * 8 * 2, 2 * 16 * 4)
    # without positions the tables are as many rows as there are, read whole
    whole = cost(
        "onnx.RotaryEmbedding", [t(2, 4, 5, 8), t(2, 5, 4), t(2, 5, 4)], [t(2, 4, 5, 8)], given=("X", *names[2:])
    )
    assert whole.bytes_read == 4 * (320 + 2 * 40)


EXPERTS = ("input", "router_probs", "fc1_experts_weights", "fc2_experts_weights", "fc3_experts_weights")


@pytest.mark.parametrize(("tokens", "met"), [(1, 2), (3, 6), (100, 8)])
def test_experts_multiply_tokens_times_k_and_read_those_that_are_met(tokens: int, met: int) -> None:
    # hidden 16, 8 experts of width 32, two per token
    inputs = [t(tokens, 16), t(tokens, 8), t(8, 32, 16, weight=True), t(8, 16, 32, weight=True)]
    inputs.append(t(8, 32, 16, weight=True))
    one = cost(M + "MoE", inputs, [t(tokens, 16)], given=EXPERTS, k=2, activation_type="silu")
    pairs = 2 * tokens
    assert sum(p.flops for p in one.products) == pairs * 3 * 2 * 16 * 32
    # a router's softmax of 8; an activation and a gate of 32; two per element of what is put together
    assert one.flops == pairs * (3 * 2 * 16 * 32 + 2 * 32 + 2 * 16) + tokens * 5 * 8
    assert one.weight_bytes == met * 3 * 16 * 32 * 4
    assert one.bytes_read == one.weight_bytes + tokens * (16 + 8) * 4
    assert all(p.batch * p.m <= pairs for p in one.products)


def test_quantised_experts_have_the_width_they_are_stored_with() -> None:
    # swiglu in fc1: 64 columns give 32; four bits, with a scale per column
    names = ("input", "router_probs", "fc1_experts_weights", "fc1_scales", "fc2_experts_weights", "fc2_scales")
    inputs = [t(1, 4, 16), t(4, 8), t(8, 64, 8, dtype="uint8", weight=True), t(8, 64, weight=True)]
    inputs += [t(8, 16, 16, dtype="uint8", weight=True), t(8, 16, weight=True)]
    one = cost(M + "QMoE", inputs, [t(1, 4, 16)], given=names, k=1, activation_type="swiglu", expert_weight_bits=4)
    assert sizes(one) == [(4, 1, 16, 64), (4, 1, 32, 16)]
    assert {p.b_bits for p in one.products} == {4}
    # 4 of 8 experts: (64 x 16 + 16 x 32) / 2 bytes and scales of 80 x 4
    assert one.weight_bytes == 4 * (768 + 320)
    # a matrix of 8 bits has a column per byte
    inputs[2] = t(8, 64, 16, dtype="uint8", weight=True)
    mixed = cost(M + "QMoE", inputs, [t(1, 4, 16)], given=names, k=1, fc1_expert_weight_bits=8)
    assert [(s[2:], p.b_bits) for s, p in zip(sizes(mixed), mixed.products, strict=True)] == [
        ((16, 64), 8),
        ((32, 16), 4),
    ]


def test_a_decoders_attention_meets_its_past_or_another_sequence() -> None:
    # 2 heads of 8, 1 query; 5 past and one new
    names = ("query", "key", "value", "past_key", "past_value", "bias")
    row, cache = t(3, 1, 16), t(3, 2, 5, 8)
    inputs = [row, row, row, cache, cache, t(48)]
    outputs = [row, t(3, 2, 6, 8), t(3, 2, 6, 8)]
    own = cost(M + "DecoderMaskedMultiHeadAttention", inputs, outputs, given=names, num_heads=2)
    assert own.flops == 3 * 2 * 6 * 37 + 3 * 48
    assert own.bytes_read == 4 * (3 * 48 + 2 * 240 + 48)
    # a shared buffer of 5: the past is at most 4, or as long as is known
    shared = {"given": names, "num_heads": 2, "past_present_share_buffer": 1}
    assert cost(M + "DecoderMaskedMultiHeadAttention", inputs, outputs, **shared).flops == 3 * 2 * 5 * 37 + 3 * 48
    known = cost(M + "DecoderMaskedMultiHeadAttention", inputs, outputs, past_sequence_length=2, **shared)
    assert known.flops == 3 * 2 * 3 * 37 + 3 * 48
    assert known.bytes_read == 4 * (3 * 48 + 2 * 3 * 2 * 2 * 8 + 48)
    other = t(3, 2, 9, 8)
    across = cost(M + "DecoderMaskedMultiHeadAttention", [row, other, other], [row], given=names[:3], num_heads=2)
    assert across.flops == 3 * 2 * 9 * 37


def test_a_decoders_self_attention_is_projections_and_past() -> None:
    # rows of 16 by 16 x 48 with a bias, then 2 heads of 8 over 5 past keys and one new
    names = ("input", "weights", "bias", "past")
    inputs = [t(3, 1, 16), t(16, 48, weight=True), t(48, weight=True), t(2, 3, 2, 5, 8)]
    attributes = {"given": names, "num_heads": 2}
    one = cost(M + "DecoderMaskedSelfAttention", inputs, [t(3, 1, 16)], **attributes)
    assert one.flops == 3 * 48 * (2 * 16 + 1) + 3 * 2 * 6 * 37
    assert one.bytes_read == sum(i.nbytes for i in inputs)
    shared = cost(
        M + "Attention", inputs, [t(3, 1, 16)], past_present_share_buffer=1, past_sequence_length=2, **attributes
    )
    assert shared.flops == 3 * 48 * (2 * 16 + 1) + 3 * 2 * 3 * 37
    assert shared.bytes_read == sum(i.nbytes for i in inputs[:3]) + 2 * 3 * 2 * 2 * 8 * 4


def test_linear_attention_with_more_key_heads_reads_one_state_for_each() -> None:
    # 4 key heads of 8 x 8, 2 query heads: outer product and reading, 2 per element each
    inputs = [t(1, 5, 16), t(1, 5, 32), t(1, 5, 32)]
    given = ("query", "key", "value")
    one = cost(
        M + "LinearAttention", inputs, [t(1, 5, 32)], given=given, q_num_heads=2, kv_num_heads=4, update_rule="linear"
    )
    assert one.flops == 5 * (2 * 256 + 2 * 256)


def test_a_blob_of_blocks_is_a_matrix() -> None:
    # (3, 64) x (64, 32): 64 blocks of 32 four-bit values with a scale of 4 bytes
    one = cost(M + "MatMulFpQ4", [t(3, 64), t(64 * 20, dtype="uint8", weight=True)], [t(3, 32)])
    assert sizes(one) == [(1, 3, 64, 32)]
    assert (one.flops, one.weight_bytes) == (2 * 3 * 64 * 32, 1280)
