"""The products inside operators: dimensions by hand, and their FLOPs against the cost rules."""

from __future__ import annotations

import pytest
from lowering_strategies import tensor

from simdevice.costs import Costs
from simdevice.lowering.work import Blocks, Stream, Transfer, WorkTable, work_of
from simdevice.records import Cost, OpTable, Product, Signature, TensorSpec


def stages(name: str, inputs: list[TensorSpec], outputs: list[TensorSpec], **attributes: object) -> list[object]:
    signature = Signature(name, tuple(inputs), tuple(outputs), tuple(attributes.items()))
    return list(work_of(signature, Costs(strict=True)(signature)))


def products(found: list[object]) -> list[Product]:
    return [s.product for s in found if isinstance(s, Blocks)]


def shapes(found: list[object]) -> list[tuple[int, int, int, int]]:
    return [(p.batch, p.m, p.k, p.n) for p in products(found)]


def widths(found: list[object]) -> list[tuple[int, int, int]]:
    return [(p.a_bits, p.b_bits, p.out_bits) for p in products(found)]


T = tensor


@pytest.mark.parametrize(
    ("name", "inputs", "output", "expected"),
    [
        ("aten.mm", [T(2, 3), T(3, 5)], T(2, 5), (1, 2, 3, 5)),
        ("aten.addmm", [T(5), T(2, 3), T(3, 5)], T(2, 5), (1, 2, 3, 5)),
        ("aten.bmm", [T(7, 2, 3), T(7, 3, 5)], T(7, 2, 5), (7, 2, 3, 5)),
        ("aten.baddbmm", [T(7, 2, 5), T(7, 2, 3), T(7, 3, 5)], T(7, 2, 5), (7, 2, 3, 5)),
        ("aten.linear", [T(4, 2, 3), T(5, 3), T(5)], T(4, 2, 5), (1, 8, 3, 5)),
        ("aten.linear", [T(3), T(5, 3)], T(5), (1, 1, 3, 5)),
        ("aten.matmul", [T(4, 2, 3), T(3, 5)], T(4, 2, 5), (1, 8, 3, 5)),
        ("aten.mv", [T(6, 3), T(3)], T(6), (1, 6, 3, 1)),
        ("aten.dot", [T(9), T(9)], T(), (1, 1, 9, 1)),
        ("aten._int_mm", [T(2, 3, dtype="int8"), T(3, 5, dtype="int8")], T(2, 5, dtype="int32"), (1, 2, 3, 5)),
    ],
)
def test_matrix_products(
    name: str, inputs: list[TensorSpec], output: TensorSpec, expected: tuple[int, int, int, int]
) -> None:
    assert shapes(stages(name, inputs, [output])) == [expected]


def test_operands_keep_their_own_widths() -> None:
    found = stages("aten._int_mm", [T(2, 3, dtype="int8"), T(3, 5, dtype="int8")], [T(2, 5, dtype="int32")])
    assert widths(found) == [(8, 8, 32)]


def test_packed_weights_count_their_real_bits() -> None:
    # 64 x 32 int4 values in 64 x 16 bytes
    inputs = [T(8, 32, dtype="bfloat16"), T(64, 16, dtype="uint8")]
    found = stages("aten._weight_int4pack_mm_for_cpu", inputs, [T(8, 64, dtype="bfloat16")])
    assert (shapes(found), widths(found)) == ([(1, 8, 32, 64)], [(16, 4, 16)])


def test_convolution_is_im2col() -> None:
    # groups 2; 4 images of 6x6 pixels; 6/2 channels x 3x3 deep; 10/2 channels wide
    found = stages(
        "aten.convolution", [T(4, 6, 8, 8), T(10, 3, 3, 3), T(10)], [T(4, 10, 6, 6)], transposed=False, groups=2
    )
    assert shapes(found) == [(2, 144, 27, 5)]


def test_transposed_convolution_multiplies_at_its_input() -> None:
    # each of 4x5x5 input pixels, 6 channels deep, gives 7 channels x 2x2
    found = stages("aten.convolution", [T(4, 6, 5, 5), T(6, 7, 2, 2)], [T(4, 7, 10, 10)], transposed=True, groups=1)
    assert shapes(found) == [(1, 100, 6, 28)]


def test_convolution_gradients_are_a_product_each() -> None:
    grad, source, weight = T(4, 10, 6, 6), T(4, 3, 8, 8), T(10, 3, 3, 3)
    mask = (True, True, True)
    found = stages(
        "aten.convolution_backward", [grad, source, weight], [source, weight, T(10)], groups=1, output_mask=mask
    )
    assert shapes(found) == [(1, 144, 10, 27), (1, 10, 144, 27)]
    only_weight = stages(
        "aten.convolution_backward", [grad, source, weight], [weight], groups=1, output_mask=(False, True, False)
    )
    assert shapes(only_weight) == [(1, 10, 144, 27)]


def test_attention_is_two_products_and_the_second_reads_the_first() -> None:
    query, key = T(2, 8, 16, 4), T(2, 2, 32, 4)  # grouped: each of 8 query heads meets every key
    found = stages("aten.scaled_dot_product_attention", [query, key, key], [query])
    # 2 x 2 key heads, met by 4 x 16 rows each
    assert shapes(found) == [(4, 64, 4, 32), (4, 64, 32, 4)]
    assert [p.chained for p in products(found)] == [False, True]


def test_attention_by_length_has_its_heads_third() -> None:
    query = T(2, 16, 8, 4)
    found = stages("aten._flash_attention_forward", [query, query, query], [query])
    assert shapes(found) == [(16, 16, 4, 16), (16, 16, 16, 4)]


def test_attention_gradients_are_five_products() -> None:
    query, key = T(1, 2, 16, 4), T(1, 2, 32, 4)
    name = "aten._scaled_dot_product_efficient_attention_backward"
    found = stages(name, [query, query, key, key], [query, key, key])
    assert shapes(found) == [(2, 16, 4, 32), (2, 32, 16, 4), (2, 16, 4, 32), (2, 16, 32, 4), (2, 32, 16, 4)]


def test_a_whole_attention_is_its_projections_and_heads() -> None:
    source = T(2, 16, 8)
    inputs = [source, source, source, T(24, 8), T(24), T(8, 8), T(8)]
    found = stages("aten._native_multi_head_attention", inputs, [source], num_head=2)
    # three projections of 2 x 16 rows, 2 x 2 heads of 4, the result's projection
    project, head = (1, 32, 8, 8), [(4, 16, 4, 16), (4, 16, 16, 4)]
    assert shapes(found) == [project] * 3 + head + [project]


def test_everything_else_streams_its_bytes() -> None:
    # 2 x 20 floats in, 20 out; 20 additions
    assert stages("aten.add", [T(4, 5), T(4, 5)], [T(4, 5)]) == [Stream(160, 80, 20)]
    # a copy has no FLOPs but moves 20 elements
    assert stages("aten.clone", [T(4, 5)], [T(4, 5)]) == [Stream(80, 80, 20)]


def test_an_operator_without_a_rule_streams_its_bytes() -> None:
    signature = Signature("custom.odd", (T(4, 5),), (T(4),))
    assert work_of(signature, Costs()(signature)) == (Stream(80, 16, 4),)


def test_transforms_count_butterflies() -> None:
    word = T(8, dtype="uint64")
    # 8/2 x 3 butterflies of 3 operations
    assert stages("fhe.ntt", [word], [word]) == [Stream(64, 64, 12, load_ops=36)]


def test_transfers_cross_the_link_and_views_do_nothing() -> None:
    assert stages("simacc.copy_to_device", [], [T(4, 5)]) == [Transfer(80)]
    assert stages("aten.view", [T(4, 5)], [T(20)]) == []
    assert stages("simacc.synchronize", [], []) == []


def test_the_first_product_brings_what_is_read_beside_all_operands() -> None:
    # three projections, two products of heads, the result's: the biases, 96 + 32 floats, come with the first
    source = T(2, 6, 32)
    inputs = [source, source, source, T(96, 32), T(96), T(32, 32), T(32)]
    whole = stages("aten._native_multi_head_attention", inputs, [source], num_head=4)
    assert [s.read_bytes for s in whole if isinstance(s, Blocks)] == [512, 0, 0, 0, 0, 0]


def test_a_pass_of_the_lanes_follows_for_gates_and_what_no_product_writes() -> None:
    # 5 steps of 3 rows, 7 units of 13; the two last states of 3 x 7 floats are no result of a product
    inputs = [T(5, 3, 10), T(28, 10), T(28, 7), T(28), T(28), T(1, 3, 7), T(1, 3, 7)]
    outputs = [T(5, 3, 7), T(1, 3, 7), T(1, 3, 7), T(0)]
    layer = stages("aten.mkldnn_rnn_layer", inputs, outputs, mode=2)
    assert layer[-1] == Stream(0, 2 * 84, 15 * 7 * 13, chained=True)
    # a softmax and a bias happen on the way out: no pass
    query = T(1, 2, 4, 8)
    assert len(stages("aten.scaled_dot_product_attention", [query] * 3, [query])) == 2


@pytest.mark.parametrize(("flops", "read", "believed"), [(60, 84, True), (61, 84, False), (60, 80, False)])
def test_products_are_stated_anew_only_where_flops_and_bytes_are_the_same(
    flops: int, read: int, believed: bool
) -> None:
    # (2, 3) x (3, 5): 2 x 2 x 3 x 5 FLOPs, 21 floats read, 10 written
    table = OpTable(lambda _: Cost("matmul", flops, bytes_read=read, bytes_written=40))
    table.intern(Signature("aten.mm", (T(2, 3), T(3, 5)), (T(2, 5),)))
    (work,) = WorkTable(table, Costs()).stages
    assert shapes(list(work)) == ([(1, 2, 3, 5)] if believed else [])
    assert believed or work == (Stream(read, 40, flops),)


def test_work_is_restated_only_where_a_file_could_lack_it() -> None:
    asked = []

    def restate(signature: Signature) -> Cost:
        asked.append(signature.name)
        if len(signature.inputs) < 2:
            raise IndexError("tuple index out of range")  # as a rule does that meets another program's order
        return Costs()(signature)

    table = OpTable(lambda signature: Cost("matmul" if "mm" in signature.name else "elementwise", 60, 84, 40))
    # 2 x 2 x 3 x 5 = 60 FLOPs, (6 + 15) x 4 = 84 bytes read, 10 x 4 written
    table.intern(Signature("aten.mm", (T(2, 3), T(3, 5)), (T(2, 5),)))
    table.intern(Signature("aten.add", (T(2, 3),), (T(2, 3),)))
    table.intern(Signature("aten.mm", (T(2, 3),), (T(2, 5),)))
    work = WorkTable(table, restate)
    assert asked == ["aten.mm", "aten.mm"]
    assert shapes(list(work.stages[0])) == [(1, 2, 3, 5)]
    assert work.stages[1:] == [(Stream(84, 40, 60),)] * 2
