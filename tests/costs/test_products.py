"""What rules state about their products: sizes, the tensors they lie in, order and windows, by hand."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from simdevice.costs import Costs
from simdevice.errors import UncostedOperatorError
from simdevice.records import INSIDE, Cost, Signature, TensorSpec, Window

Stated = tuple[tuple[int, int, int, int], Any, Any, Any]


def t(*shape: int, dtype: str = "float32", weight: bool = False) -> TensorSpec:
    return TensorSpec(shape, dtype, weight)


def cost(name: str, inputs: list[TensorSpec], outputs: list[TensorSpec], **attributes: Any) -> Cost:
    return Costs(strict=True)(Signature(name, tuple(inputs), tuple(outputs), tuple(attributes.items())))


def sizes(one: Cost) -> list[tuple[int, int, int, int]]:
    return [(p.batch, p.m, p.k, p.n) for p in one.products]


def stated(one: Cost) -> list[Stated]:
    """Sizes, then the place of each operand and of the result."""

    def place(places: tuple[int, ...]) -> Any:
        return places[0] if len(places) == 1 else places

    return [((p.batch, p.m, p.k, p.n), place(p.a), place(p.b), place(p.out)) for p in one.products]


def own(one: Cost) -> list[tuple[int, int, int]]:
    """Bytes of the call that each operand and the result stand for."""
    return [(p.a_bytes, p.b_bytes, p.out_bytes) for p in one.products]


def chained(one: Cost) -> list[bool]:
    return [p.chained for p in one.products]


@pytest.mark.parametrize(
    ("left", "right", "out", "expected"),
    [
        ((3, 4, 6), (6,), (3, 4), (1, 12, 6, 1)),  # one vector for all: 3 x 4 rows
        ((6,), (3, 6, 5), (3, 5), (3, 1, 6, 5)),  # one row meets each of 3 matrices
        ((2, 1, 4, 6), (3, 6, 5), (2, 3, 4, 5), (6, 4, 6, 5)),  # 2 x 3
        ((3, 4, 6), (2, 3, 6, 5), (2, 3, 4, 5), (6, 4, 6, 5)),  # batches meet from the right
        ((2, 3, 4, 6), (1, 6, 5), (2, 3, 4, 5), (1, 24, 6, 5)),  # one matrix is no batch
    ],
    ids=["vector", "row", "both", "right", "one"],
)
def test_batches_broadcast(
    left: tuple[int, ...], right: tuple[int, ...], out: tuple[int, ...], expected: tuple[int, int, int, int]
) -> None:
    assert stated(cost("aten.matmul", [t(*left), t(*right)], [t(*out)])) == [(expected, 0, 1, 0)]


def test_nothing_times_a_batch_is_nothing() -> None:
    one = cost("aten.matmul", [t(0, 1, 4, 6), t(3, 6, 5)], [t(0, 3, 4, 5)])
    assert (one.flops, one.products) == (0, ())
    # an Einsum over an index of no length
    assert cost("onnx.Einsum", [t(0, 6), t(6, 5)], [t(0, 5)], equation="ij,jk->ik").flops == 0


def test_a_bias_that_broadcasts_is_read_once_and_added_everywhere() -> None:
    one = cost("aten.baddbmm", [t(5), t(3, 4, 6), t(3, 6, 5)], [t(3, 4, 5)])
    assert stated(one) == [((3, 4, 6, 5), 1, 2, 0)]
    # 3 x 4 x 5 outputs of 2 x 6 and 1; 5 + 72 + 90 floats
    assert (one.flops, one.bytes_read) == (60 * 13, 167 * 4)


def test_columns_meet_as_many_matrices_as_there_are_columns() -> None:
    # 3 columns meet at most 3 of 8 matrices of 6 x 4 floats: 288 bytes; columns 48, ends 32
    stack = t(8, 6, 4, weight=True)
    one = cost("aten._grouped_mm", [stack, t(4, 3), t(8, dtype="int32")], [t(6, 3)])
    assert stated(one) == [((3, 6, 4, 1), 0, 1, 0)]
    assert (one.bytes_read, one.weight_bytes, own(one)) == (288 + 48 + 32, 288, [(288, 48, 72)])


@pytest.mark.parametrize(
    ("left", "right", "out", "expected"),
    [
        ((10, 16), (3, 16, 8), (10, 8), [(1, 4, 32, 8), (2, 3, 32, 8)]),  # 10 rows over 3 matrices
        ((3, 6, 16), (16, 9), (6, 9), [(3, 6, 32, 3)]),  # 9 columns over 3 matrices
        ((4, 11), (11, 5), (3, 4, 5), [(1, 4, 8, 5), (2, 4, 7, 5)]),  # 22 deep in 3 groups
        ((3, 6, 16), (3, 16, 5), (3, 6, 5), [(3, 6, 32, 5)]),  # a plain batch
    ],
    ids=["rows", "columns", "depth", "batch"],
)
def test_pairs_of_float4_are_twice_as_deep_and_four_bits_wide(
    left: tuple[int, ...], right: tuple[int, ...], out: tuple[int, ...], expected: list[tuple[int, int, int, int]]
) -> None:
    pair = "float4_e2m1fn_x2"
    operands = [t(*left, dtype=pair), t(*right, dtype=pair), t(1), t(1), t(3, dtype="int32")]
    one = cost("aten._scaled_grouped_mm", operands, [t(*out, dtype="bfloat16")])
    assert sizes(one) == expected
    assert {(p.a_bits, p.b_bits, p.out_bits) for p in one.products} == {(4, 4, 16)}


def test_gradients_of_a_mixture_of_experts() -> None:
    # 5 rows of 8 over 3 matrices of 8 x 4: two meet 2 rows, one meets 1.
    # g W^T is (m, 4) x (4, 8), x^T g is (8, m) x (m, 4)
    rows, stack = t(5, 8), t(3, 8, 4)
    one = cost("transformers.grouped_mm_fallback_backward", [rows, stack, t(3, dtype="int32")], [rows, stack])
    assert stated(one) == [
        ((2, 2, 4, 8), INSIDE, 1, INSIDE),
        ((2, 8, 2, 4), 0, INSIDE, INSIDE),
        ((1, 1, 4, 8), INSIDE, 1, INSIDE),
        ((1, 8, 1, 4), 0, INSIDE, INSIDE),
    ]


def test_gradients_of_a_linear_layer() -> None:
    # x (4, 6), g (4, 5), W (5, 6): dx = g W is (4, 5) x (5, 6), dW = g^T x is (5, 4) x (4, 6)
    x, g, w = t(4, 6), t(4, 5), t(5, 6)
    both = cost("aten.linear_backward", [x, g, w], [x, w, t(5)], output_mask=(True, True, True))
    assert stated(both) == [((1, 4, 5, 6), 1, 2, 0), ((1, 5, 4, 6), 1, 0, 1)]
    # g, read by both, belongs to the first
    assert own(both) == [(80, 120, 96), (0, 96, 120)]
    only = cost("aten.linear_backward", [x, g, w], [w], output_mask=(False, True, False))
    assert stated(only) == [((1, 5, 4, 6), 1, 0, 0)]
    assert stated(cost("aten.mkldnn_linear_backward_input", [g, w], [x])) == [((1, 4, 5, 6), 0, 1, 0)]
    weights = cost("aten.mkldnn_linear_backward_weights", [g, x], [w, t(5)], bias_defined=True)
    assert stated(weights) == [((1, 5, 4, 6), 0, 1, 0)]
    # 2 x 120 and 20 sums
    assert weights.flops == 240 + 20


def test_gradients_of_a_product() -> None:
    # g (3, 4, 5), A (3, 4, 6), B (3, 6, 5): dA = g B^T is (4, 5) x (5, 6), dB = A^T g is (6, 4) x (4, 5)
    g, a, b = t(3, 4, 5), t(3, 4, 6), t(3, 6, 5)
    both = cost("aten.matmul_backward", [g, a, b], [a, b], mask=(True, True))
    assert stated(both) == [((3, 4, 5, 6), 0, 2, 0), ((3, 6, 4, 5), 1, 0, 1)]
    assert stated(cost("aten.matmul_backward", [g, a, b], [b], mask=(False, True))) == [((3, 6, 4, 5), 1, 0, 0)]


@pytest.mark.parametrize(
    ("equation", "left", "right", "out", "expected"),
    [
        ("bik,bkj->bij", (4, 5, 3), (4, 3, 7), (4, 5, 7), (4, 5, 3, 7)),
        ("...ij,...jk->...ik", (2, 1, 4, 6), (3, 6, 5), (2, 3, 4, 5), (3, 8, 6, 5)),  # the 2 is the left's alone: rows
        ("ijx,jk->ik", (4, 6, 2), (6, 5), (4, 5), (1, 4, 6, 5)),  # x is the left's alone: summed before
        ("ij,kj", (4, 6), (5, 6), (4, 5), (1, 4, 6, 5)),  # no arrow: what occurs once is kept
        ("...ij,jk", (2, 4, 6), (6, 5), (2, 4, 5), (1, 8, 6, 5)),
        ("...ij,...jk", (2, 4, 6), (2, 6, 5), (2, 4, 5), (2, 4, 6, 5)),
        ("...ij,...jk", (3, 4, 6), (1, 6, 5), (3, 4, 5), (3, 4, 6, 5)),  # a length of 1 broadcasts on either side
    ],
)
def test_indices_of_an_einsum(
    equation: str,
    left: tuple[int, ...],
    right: tuple[int, ...],
    out: tuple[int, ...],
    expected: tuple[int, int, int, int],
) -> None:
    one = cost("onnx.Einsum", [t(*left), t(*right)], [t(*out)], equation=equation)
    assert stated(one) == [(expected, 0, 1, 0)]


def test_an_einsum_without_a_sum_multiplies_pair_by_pair() -> None:
    # 4 x 5, then 4 x 5 x 6
    one = cost("onnx.Einsum", [t(4), t(5), t(6)], [t(4, 5, 6)], equation="i,j,k->ijk")
    assert (one.category, one.flops) == ("elementwise", 20 + 120)


def test_an_einsum_of_three_is_two_products() -> None:
    # (4, 5) x (5, 6), then that x (6,)
    three = cost("onnx.Einsum", [t(4, 5), t(5, 6), t(6)], [t(4)], equation="ij,jk,k->i")
    assert stated(three) == [((1, 4, 5, 6), 0, 1, INSIDE), ((1, 4, 6, 1), INSIDE, 2, 0)]
    assert three.flops == 2 * 4 * 5 * 6 + 2 * 4 * 6
    # j of the left alone is summed (4 x 5), k of the right too (4 x 6), then 4 products
    sums = cost("onnx.Einsum", [t(4, 5), t(4, 6)], [t(4)], equation="ij,ik->i")
    assert (sums.category, sums.flops) == ("elementwise", 20 + 24 + 4)
    # an index that a later operand needs is no depth yet: i j k multiplied, then (4, 30) x (30,)
    late = cost("onnx.Einsum", [t(4, 5), t(5, 6), t(5, 6)], [t(4)], equation="ij,jk,jk->i")
    assert stated(late) == [((1, 4, 30, 1), INSIDE, 2, 0)]
    assert [(e.name, e.flops) for e in late.extras] == [("elementwise product", 120)]


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ab,bc,cd->ad", [(100, 100)] * 3),
        ("ab,bc,cd,de->ae", [(3, 4), (4, 5), (5, 6), (6, 7)]),
        ("bij,bjk,bkl->bil", [(2, 3, 4), (2, 4, 5), (2, 5, 6)]),
        ("bhqd,bhkd,bhkv->bhqv", [(2, 3, 4, 5), (2, 3, 6, 5), (2, 3, 6, 7)]),
        ("abx,bc,cdy->ad", [(3, 4, 2), (4, 5), (5, 6, 3)]),
        ("i,ij,j->", [(4,), (4, 5), (5,)]),
    ],
)
def test_an_einsum_multiplies_as_pytorch_does(equation: str, shapes: list[tuple[int, ...]]) -> None:
    """PyTorch's own count of its products, on its path without opt_einsum."""
    operands = [torch.ones(shape) for shape in shapes]
    with torch.backends.opt_einsum.flags(enabled=False), FlopCounterMode(display=False) as counter:
        result = torch.einsum(equation, *operands)
    ours = cost("onnx.Einsum", [t(*shape) for shape in shapes], [t(*result.shape)], equation=equation)
    assert sum(p.flops for p in ours.products) == counter.get_total_flops()


def test_an_index_that_is_in_no_operand_is_unknown() -> None:
    with pytest.raises(UncostedOperatorError, match="an equation that doesn't fit its operands"):
        cost("onnx.Einsum", [t(4, 5), t(5, 6)], [t(4, 6)], equation="ij,jk->iz")


def test_a_grid_is_points_times_theta() -> None:
    # 2 images of 4 x 5 points (x, y, 1) by theta (2, 2, 3) transposed
    expected = [((2, 20, 3, 2), INSIDE, 0, 0)]
    grid, theta = t(2, 4, 5, 2), t(2, 2, 3)
    assert stated(cost("onnx.AffineGrid", [theta, t(4, dtype="int64")], [grid])) == expected
    # its gradient: (2, 20) x (20, 3)
    back = cost("aten.cudnn_affine_grid_generator_backward", [grid], [theta])
    assert stated(back) == [((2, 2, 20, 3), 0, INSIDE, 0)]


@pytest.mark.parametrize(
    ("stored_a", "stored_b", "attributes"),
    [
        ((2, 4, 3), (2, 3, 5), {}),
        ((2, 3, 4), (2, 5, 3), {"transA": 1, "transB": 1}),
        ((3, 2, 4), (2, 3, 5), {"transA": 1, "transBatchA": 1}),
        ((4, 2, 3), (2, 3, 5), {"transBatchA": 1}),
        ((2, 4, 3), (3, 2, 5), {"transBatchB": 1}),
        ((2, 4, 3), (5, 2, 3), {"transB": 1, "transBatchB": 1}),
    ],
)
def test_every_way_to_store_operands_is_the_same_product(
    stored_a: tuple[int, ...], stored_b: tuple[int, ...], attributes: dict[str, int]
) -> None:
    one = cost("com.microsoft.FusedMatMul", [t(*stored_a), t(*stored_b)], [t(2, 4, 5)], **attributes)
    assert stated(one) == [((2, 4, 3, 5), 0, 1, 0)]


def test_lists_of_products_lie_in_their_own_tensors() -> None:
    one = cost("aten._foreach_mm", [t(2, 3), t(4, 5), t(3, 6), t(5, 7)], [t(2, 6), t(4, 7)])
    assert stated(one) == [((1, 2, 3, 6), 0, 2, 0), ((1, 4, 5, 7), 1, 3, 1)]


def test_sums_of_products_are_one_deep_product() -> None:
    # self + the sum over 3 of (4, 6) x (6, 5); an outer product is 1 deep
    deep = cost("aten.addbmm", [t(4, 5), t(3, 4, 6), t(3, 6, 5)], [t(4, 5)])
    assert stated(deep) == [((1, 4, 18, 5), 1, 2, 0)]
    assert stated(cost("aten.addr", [t(4, 5), t(4), t(5)], [t(4, 5)])) == [((1, 4, 1, 5), 1, 2, 0)]
    combined = cost("aten._compute_linear_combination", [t(3, 4, 5), t(2, 3)], [t(2, 4, 5)])
    assert stated(combined) == [((1, 2, 3, 20), 1, 0, 0)]


# Convolutions


@pytest.mark.parametrize(
    ("name", "attributes"),
    [
        ("aten.convolution", {"stride": (2, 1), "dilation": (1, 2), "groups": 2}),
        ("onnx.Conv", {"strides": (2, 1), "dilations": (1, 2), "group": 2}),
    ],
)
def test_a_window_slides_as_its_attributes_say(name: str, attributes: dict[str, Any]) -> None:
    # 9 x 9 by 3 x 3 at stride 2 and 1, columns dilated by 2: (9 - 3) / 2 + 1 = 4 rows, 9 - 4 = 5 columns
    one = cost(name, [t(2, 4, 9, 9), t(6, 2, 3, 3), t(6)], [t(2, 6, 4, 5)], **attributes)
    # 2 groups: 2 x 20 places, 2 channels x 9 deep, 3 channels; and a bias for each of 240
    assert stated(one) == [((2, 40, 18, 3), 0, 1, 0)]
    assert one.flops == 2 * 2 * 40 * 18 * 3 + 240
    (product,) = one.products
    assert (product.windowed, product.window) == ("a", Window(2, (9, 9), (4, 5), (3, 3), (2, 1), (1, 2)))


def test_one_number_and_none_are_the_same_in_every_dimension() -> None:
    shapes = [t(2, 4, 9, 9), t(6, 4, 3, 3)], [t(2, 6, 4, 4)]
    (one,) = cost("aten.conv2d", *shapes, stride=(2,)).products
    assert one.window == Window(2, (9, 9), (4, 4), (3, 3), (2, 2), (1, 1))
    (number,) = cost("aten.conv2d", *shapes, stride=2).products
    assert number.window == one.window
    # (channels, length) without a batch is one picture
    (single,) = cost("aten.conv1d", [t(4, 11), t(6, 4, 3)], [t(6, 9)]).products
    assert single.window == Window(1, (11,), (9,), (3,), (1,), (1,))


@pytest.mark.parametrize("name", ["aten.convolution", "onnx.ConvTranspose"])
def test_a_transposed_convolution_scatters_over_its_result(name: str) -> None:
    # each of 2 x 27 pixels, 2 channels deep, over 3 channels x 3x3x3; 6^3 places: (3 - 1) * 2 - 2 + 3 + 1
    attributes = (
        {"transposed": True, "groups": 2, "stride": (2, 2, 2)}
        if name == "aten.convolution"
        else {"group": 2, "strides": (2, 2, 2), "given": ("X", "W", "B")}
    )
    one = cost(name, [t(2, 4, 3, 3, 3), t(4, 3, 3, 3, 3), t(6)], [t(2, 6, 6, 6, 6)], **attributes)
    assert stated(one) == [((2, 54, 2, 81), 0, 1, 0)]
    assert one.flops == 2 * 2 * 54 * 2 * 81 + 2 * 6 * 216
    (product,) = one.products
    assert product.windowed == "out"
    assert product.window == Window(2, (6, 6, 6), (3, 3, 3), (3, 3, 3), (2, 2, 2), (1, 1, 1))


def test_channels_may_be_last() -> None:
    # 9 x 9 pixels to 7 x 7; 2 groups: 49 places, 2 channels x 9 deep, 4 channels
    window = Window(1, (9, 9), (7, 7), (3, 3), (1, 1), (1, 1))
    first = cost("onnx.Conv", [t(1, 4, 9, 9), t(8, 2, 3, 3)], [t(1, 8, 7, 7)], group=2)
    last = cost("com.microsoft.NhwcConv", [t(1, 9, 9, 4), t(8, 3, 3, 2)], [t(1, 7, 7, 8)], group=2)
    fused = cost("com.microsoft.NhwcFusedConv", [t(1, 9, 9, 4), t(8, 3, 3, 2)], [t(1, 7, 7, 8)], group=2)
    assert first == last == fused
    assert [(p.batch, p.m, p.k, p.n, p.window) for p in first.products] == [(2, 49, 18, 4, window)]
    # quantised, the weight keeps its channels first
    byte, zero = t(1, 9, 9, 4, dtype="uint8"), t(dtype="uint8")
    inputs = [byte, t(), zero, t(8, 2, 3, 3, dtype="int8"), t(), t(dtype="int8"), t(), zero]
    out = t(1, 7, 7, 8, dtype="uint8")
    quantised = cost("com.microsoft.QLinearConv", inputs, [out], group=2, channels_last=1)
    assert stated(quantised) == [((2, 49, 18, 4), 0, 3, 0)]
    assert quantised.products[0].window == window
    # 324 + 144 + 3 scales of 4 + 3 zero points
    assert (quantised.bytes_read, quantised.bytes_written) == (324 + 144 + 15, 392)


def test_a_convolution_over_time_and_a_causal_one_slide_along_one_line() -> None:
    # (7, 2, 3) by (3, 3, 5): 5 places of 2 lines, 3 x 3 deep
    tbc = cost("aten.conv_tbc", [t(7, 2, 3), t(3, 3, 5), t(5)], [t(5, 2, 5)])
    assert stated(tbc) == [((1, 10, 9, 5), 0, 1, 0)]
    assert tbc.products[0].window == Window(2, (7,), (5,), (3,), (1,), (1,))
    # 6 channels apart: 2 x 10 places, 4 deep; a bias and an activation for each of 120
    given = ("input", "weight", "bias", "past_state")
    inputs, outputs = [t(2, 6, 10), t(6, 1, 4), t(6), t(2, 6, 3)], [t(2, 6, 10), t(2, 6, 3)]
    causal = cost("com.microsoft.CausalConvWithState", inputs, outputs, given=given, activation="silu")
    assert stated(causal) == [((6, 20, 4, 1), (0, 3), 1, 0)]
    assert causal.products[0].window == Window(2, (10,), (10,), (4,), (1,), (1,))
    assert causal.flops == 2 * 6 * 20 * 4 + 2 * 120
    # the windows, 480 floats, stand for all 120 + 36 that they slide over
    assert (causal.products[0].windowed, own(causal)) == ("a", [(624, 96, 480)])


@pytest.mark.parametrize(
    ("name", "gradient_first"), [("aten.convolution_backward", True), ("aten.mps_convolution_backward", False)]
)
def test_gradients_of_a_convolution(name: str, gradient_first: bool) -> None:
    # x (1, 4, 8, 8), weight (6, 2, 3, 3) in 2 groups, y (1, 6, 6, 6): 36 places, 3 channels, 2 x 9 columns
    x, w, y = t(1, 4, 8, 8), t(6, 2, 3, 3), t(1, 6, 6, 6)
    ahead = [y, x] if gradient_first else [x, y]
    at_y, at_x = ahead.index(y), ahead.index(x)
    one = cost(name, [*ahead, w], [x, w, t(6)], groups=2, output_mask=(True, True, True))
    # dx scatters (36, 3) x (3, 18); dw is (3, 36) x (36, 18); db sums 216
    assert stated(one) == [((2, 36, 3, 18), at_y, 2, 0), ((2, 3, 36, 18), at_y, at_x, 1)]
    window = Window(1, (8, 8), (6, 6), (3, 3), (1, 1), (1, 1))
    assert [(p.windowed, p.window) for p in one.products] == [("out", window), ("b", window)]
    assert [(e.name, e.flops) for e in one.extras] == [("bias gradient", 216)]
    # dw alone is the first output
    only = cost(name, [*ahead, w], [w], groups=2, output_mask=(False, True, False))
    assert stated(only) == [((2, 3, 36, 18), at_y, at_x, 0)]


@pytest.mark.parametrize(
    ("name", "gradient_first"),
    [("aten.convolution_backward", True), ("aten.mps_convolution_transpose_backward", False)],
)
def test_gradients_of_a_transposed_convolution(name: str, gradient_first: bool) -> None:
    # x (1, 4, 5, 5), weight (4, 3, 2, 2) in 2 groups, y (1, 6, 6, 6): 25 pixels, 2 channels, 3 x 4 columns
    x, w, y = t(1, 4, 5, 5), t(4, 3, 2, 2), t(1, 6, 6, 6)
    ahead = [y, x] if gradient_first else [x, y]
    at_y, at_x = ahead.index(y), ahead.index(x)
    attributes = {"transposed": True, "output_mask": (True, True, False)} if gradient_first else {}
    one = cost(name, [*ahead, w], [x, w], groups=2, **attributes)
    # dx gathers windows of y, (25, 12) x (12, 2); dw is x transposed times them, (2, 25) x (25, 12)
    assert stated(one) == [((2, 25, 12, 2), at_y, 2, 0), ((2, 2, 25, 12), at_x, at_y, 1)]
    window = Window(1, (6, 6), (5, 5), (2, 2), (1, 1), (1, 1))
    assert [(p.windowed, p.window) for p in one.products] == [("a", window), ("b", window)]


def test_what_a_fused_convolution_adds_and_activates() -> None:
    # 288 results of 4 x 9: a bias, an addend and an activation are 1 each
    shapes = [t(1, 4, 8, 8), t(8, 4, 3, 3), t(8), t(1, 8, 6, 6)]
    out = [t(1, 8, 6, 6)]
    onnx = cost("com.microsoft.FusedConv", shapes, out, given=("X", "W", "B", "Z"), activation="Relu")
    blocked = cost("com.microsoft.nchwc.Conv", shapes, out, given=("X", "W", "B", "Sum"), activation="Relu")
    cudnn = cost("aten.cudnn_convolution_add_relu", [shapes[0], shapes[1], shapes[3], shapes[2]], out)
    for one in (onnx, blocked, cudnn):
        assert {e.name: e.flops for e in one.extras} == {"bias": 288, "addend": 288, "activation": 288}
    without = cost("aten.cudnn_convolution_add_relu", [shapes[0], shapes[1], shapes[3]], out)
    assert {e.name: e.flops for e in without.extras} == {"addend": 288, "activation": 288}


def test_deformed_windows_are_sampled_before_they_are_multiplied() -> None:
    # 36 places of 4 channels x 9 taps: 8 each, and 1 where there is a mask, by the lanes
    inputs = [t(1, 4, 8, 8), t(8, 4, 3, 3), t(1, 18, 6, 6), t(8), t(1, 9, 6, 6)]
    one = cost("onnx.DeformConv", inputs, [t(1, 8, 6, 6)], given=("X", "W", "offset", "B", "mask"))
    assert [(e.name, e.flops, e.staged) for e in one.extras] == [("bias", 288, False), ("sampling", 1296 * 9, True)]


# Attention


def test_query_heads_that_do_not_share_evenly_share_nothing() -> None:
    query, key, value = t(1, 6, 5, 8), t(1, 4, 7, 8), t(1, 4, 7, 3)
    one = cost("aten.scaled_dot_product_attention", [query, key, value], [t(1, 6, 5, 3)])
    assert stated(one) == [((6, 5, 8, 7), 0, 1, INSIDE), ((6, 5, 7, 3), INSIDE, 2, 0)]
    assert chained(one) == [False, True]


def test_length_before_heads_after_a_tensor_that_is_only_written() -> None:
    # (batch, length, heads, width): 2 x 4 query heads over 2 x 2 key heads, 2 x 3 rows each
    query, key, value = t(2, 3, 4, 8), t(2, 7, 2, 8), t(2, 7, 2, 5)
    out = t(2, 3, 4, 5)
    expected = [((4, 6, 8, 7), 0, 1, INSIDE), ((4, 6, 7, 5), INSIDE, 2, 0)]
    assert stated(cost("aten._flash_attention_forward", [query, key, value], [out])) == expected
    placed = cost("aten._flash_attention_forward_no_dropout_inplace", [out, query, key, value], [out])
    assert stated(placed) == [((4, 6, 8, 7), 1, 2, INSIDE), ((4, 6, 7, 5), INSIDE, 3, 0)]
    assert placed.bytes_read == query.nbytes + key.nbytes + value.nbytes


def test_gradients_of_attention_lie_in_their_tensors() -> None:
    # 2 heads, 3 queries, 7 keys, width 8, values 5: S, dV = P^T dO, dP = dO V^T, dQ = dS K, dK = dS^T Q
    grad, query, key, value = t(1, 2, 3, 5), t(1, 2, 3, 8), t(1, 2, 7, 8), t(1, 2, 7, 5)
    name = "aten._scaled_dot_product_flash_attention_for_cpu_backward"
    one = cost(name, [grad, query, key, value], [query, key, value])
    assert stated(one) == [
        ((2, 3, 8, 7), 1, 2, INSIDE),
        ((2, 7, 3, 5), INSIDE, 0, 2),
        ((2, 3, 5, 7), 0, 3, INSIDE),
        ((2, 3, 7, 8), INSIDE, 2, 0),
        ((2, 7, 3, 8), INSIDE, 1, 1),
    ]
    assert chained(one) == [False, True, True, True, True]
    # 192 + 448 bytes; dO 120 and dV 280; V 280; dQ 192; dK 448: each byte belongs to the first that reaches it
    assert own(one) == [(192, 448, 0), (0, 120, 280), (0, 280, 0), (0, 0, 192), (0, 0, 448)]


def test_a_whole_attention_by_its_tensors() -> None:
    # 6 queries and 7 keys of 2 x 32 wide, 4 heads of 8
    query, key = t(2, 6, 32), t(2, 7, 32)
    parameters = [t(96, 32), t(96), t(32, 32), t(32)]
    one = cost("aten._native_multi_head_attention", [query, key, key, *parameters], [query], num_head=4)
    assert stated(one) == [
        ((1, 12, 32, 32), 0, 3, INSIDE),
        ((1, 14, 32, 32), 1, 3, INSIDE),
        ((1, 14, 32, 32), 2, 3, INSIDE),
        ((8, 6, 8, 7), INSIDE, INSIDE, INSIDE),
        ((8, 6, 7, 8), INSIDE, INSIDE, INSIDE),
        ((1, 12, 32, 32), INSIDE, 5, 0),
    ]
    assert chained(one) == [False, False, False, True, True, True]
    # the three matrices lie behind each other in one tensor
    assert own(one)[:3] == [(1536, 4096, 0), (1792, 4096, 0), (1792, 4096, 0)]
    # biases: 12 + 14 + 14 + 12 rows of 32
    assert {e.name: e.flops for e in one.extras} == {"bias": 52 * 32, "softmax": 5 * 8 * 6 * 7}


def test_an_encoder_layer_by_its_tensors() -> None:
    # 2 x 6 rows of 32, 4 heads, 48 hidden
    source = t(2, 6, 32)
    norms, attention = [t(32)] * 4, [t(96, 32), t(96), t(32, 32), t(32)]
    forward = [t(48, 32), t(48), t(32, 48), t(32)]
    one = cost("aten._transformer_encoder_layer_fwd", [source, *attention, *norms, *forward], [source], num_heads=4)
    assert stated(one) == [
        ((1, 12, 32, 96), 0, 1, INSIDE),
        ((8, 6, 8, 6), INSIDE, INSIDE, INSIDE),
        ((8, 6, 6, 8), INSIDE, INSIDE, INSIDE),
        ((1, 12, 32, 32), INSIDE, 3, INSIDE),
        ((1, 12, 32, 48), INSIDE, 9, INSIDE),
        ((1, 12, 48, 32), INSIDE, 11, 0),
    ]
    assert chained(one) == [False, True, True, True, True, True]
    # two norms of 5 per element are a pass of the lanes
    assert [(e.name, e.flops) for e in one.extras if e.staged] == [("norm", 2 * 5 * 12 * 32)]


GIVEN = ("query", "key", "value", "bias", "past_key", "past_value")


def test_query_key_and_value_may_share_tensors() -> None:
    # 2 x 4 heads, 3 queries of 8
    packed = cost("com.microsoft.MultiHeadAttention", [t(2, 3, 4, 3, 8)], [t(2, 3, 32)], given=("query",), num_heads=4)
    assert stated(packed) == [((8, 3, 8, 3), 0, 0, INSIDE), ((8, 3, 3, 8), INSIDE, 0, 0)]
    assert own(packed) == [(768, 768, 0), (0, 768, 768)]
    # 5 keys and values in one tensor
    two = [t(2, 3, 32), t(2, 5, 4, 2, 8)]
    pair = cost("com.microsoft.MultiHeadAttention", two, [t(2, 3, 32)], given=("query", "key"), num_heads=4)
    assert stated(pair) == [((8, 3, 8, 5), 0, 1, INSIDE), ((8, 3, 5, 8), INSIDE, 1, 0)]
    assert own(pair) == [(768, 1280, 0), (0, 1280, 768)]
    # by head, of another width each: 8 and 4
    apart = [t(2, 3, 32), t(2, 4, 5, 8), t(2, 4, 5, 4)]
    heads = cost("com.microsoft.MultiHeadAttention", apart, [t(2, 3, 16)], given=GIVEN[:3], num_heads=4)
    assert stated(heads) == [((8, 3, 8, 5), 0, 1, INSIDE), ((8, 3, 5, 4), INSIDE, 2, 0)]


def test_an_attention_adds_the_bias_that_it_reads() -> None:
    # 5 new and 6 past keys; queries 192, keys 320 and values 160 elements each gain a bias of (32 + 32 + 16)
    inputs = [t(2, 3, 32), t(2, 5, 32), t(2, 5, 16), t(80), t(2, 4, 6, 8), t(2, 4, 6, 4)]
    one = cost("com.microsoft.MultiHeadAttention", inputs, [t(2, 3, 16)], given=GIVEN, num_heads=4)
    assert stated(one) == [((8, 3, 8, 11), 0, (1, 4), INSIDE), ((8, 3, 11, 4), INSIDE, (2, 5), 0)]
    assert {e.name: e.flops for e in one.extras} == {"softmax": 5 * 8 * 3 * 11, "bias": 672}
    # the bias's 80 floats too
    assert one.bytes_read == 4 * (192 + 320 + 160 + 80 + 384 + 192)


def test_packed_queries_read_the_new_keys_before_the_cache() -> None:
    # (1, 4, (8 + 2 x 2) x 16): 2,048 bytes of queries, then 1,024 of new keys and values; caches of 8,192
    given = ("query", "past_key", "past_value")
    inputs = [t(1, 4, 192), t(1, 2, 64, 16), t(1, 2, 64, 16)]
    attributes = {"given": given, "num_heads": 8, "kv_num_heads": 2}
    one = cost("com.microsoft.GroupQueryAttention", inputs, [t(1, 4, 128)], **attributes)
    assert stated(one) == [((2, 16, 16, 64), 0, (0, 1), INSIDE), ((2, 16, 64, 16), INSIDE, (0, 1, 2), 0)]
    # each of both products reaches 2 x 64 x 16 floats
    assert own(one) == [(2048, 8192, 0), (0, 8192, 2048)]


def test_values_may_be_narrower_than_keys() -> None:
    # 4 query heads over 2 key heads: keys 8 wide, values 4; 6 new and 3 past
    inputs = [t(2, 6, 32), t(2, 6, 16), t(2, 6, 8), t(6, 9), t(2, 2, 3, 8), t(2, 2, 3, 4)]
    given = ("Q", "K", "V", "attn_mask", "past_key", "past_value")
    one = cost("onnx.Attention", inputs, [t(2, 6, 16)], given=given, q_num_heads=4, kv_num_heads=2)
    assert stated(one) == [((4, 12, 8, 9), 0, (1, 4), INSIDE), ((4, 12, 9, 4), INSIDE, (2, 5), 0)]
    # projections of 16 to 16 + 16 + 8 in 4 heads: keys 4 wide, values 2
    projected = cost(
        "com.microsoft.Attention", [t(2, 3, 16), t(16, 40)], [t(2, 3, 8)], given=("input", "weights"), num_heads=4
    )
    assert stated(projected) == [
        ((1, 6, 16, 40), 0, 1, INSIDE),
        ((8, 3, 4, 3), INSIDE, INSIDE, INSIDE),
        ((8, 3, 3, 2), INSIDE, INSIDE, 0),
    ]
    assert [e.name for e in projected.extras] == ["softmax"]


def test_a_projected_attention_reads_its_cache_and_no_mask() -> None:
    # 3 new and 5 past keys of 4; the cache holds keys and values
    given = ("input", "weights", "bias", "mask_index", "past")
    inputs = [t(2, 3, 16), t(16, 48), t(48), t(2, dtype="int32"), t(2, 2, 4, 5, 4)]
    one = cost("com.microsoft.Attention", inputs, [t(2, 3, 16)], given=given, num_heads=4)
    assert stated(one) == [
        ((1, 6, 16, 48), 0, 1, INSIDE),
        ((8, 3, 4, 8), INSIDE, 4, INSIDE),
        ((8, 3, 8, 4), INSIDE, 4, 0),
    ]
    assert chained(one) == [False, True, True]
    assert one.bytes_read == 4 * (96 + 768 + 48 + 320)
    assert {e.name: e.flops for e in one.extras} == {"bias": 6 * 48, "softmax": 5 * 8 * 3 * 8}


def test_linear_attention_is_all_passes_of_the_lanes() -> None:
    # 2 steps; a state of 2 x 8 x 8, read by 4 heads
    attributes = {"given": ("query", "key", "value"), "q_num_heads": 4, "kv_num_heads": 2, "update_rule": "linear"}
    one = cost("onnx.LinearAttention", [t(1, 2, 32), t(1, 2, 16), t(1, 2, 16)], [t(1, 2, 32)], **attributes)
    assert [(e.name, e.flops, e.staged) for e in one.extras] == [
        ("state", 2 * 2 * 128, True),
        ("read state", 2 * 2 * 256, True),
    ]


# Recurrent layers


def lstm_parameters(width: int, units: int, recurrent: int) -> list[TensorSpec]:
    gates = 4 * units
    return [t(gates, width), t(gates, recurrent), t(gates), t(gates)]


def test_both_directions_of_every_layer_have_their_own_matrices() -> None:
    # 3 steps of 2 rows, 5 wide, 7 units each way: the second layer reads 14
    first, second = lstm_parameters(5, 7, 7), lstm_parameters(14, 7, 7)
    inputs = [t(3, 2, 5), t(4, 2, 7), t(4, 2, 7), *first, *first, *second, *second]
    one = cost("aten.lstm", inputs, [t(3, 2, 14)], bidirectional=True, batch_first=False)
    assert stated(one) == [
        ((1, 6, 5, 28), 0, 3, INSIDE),
        ((3, 2, 7, 28), INSIDE, 4, INSIDE),
        ((1, 6, 5, 28), 0, 7, INSIDE),
        ((3, 2, 7, 28), INSIDE, 8, INSIDE),
        ((1, 6, 14, 28), INSIDE, 11, INSIDE),
        ((3, 2, 7, 28), INSIDE, 12, 0),
        ((1, 6, 14, 28), INSIDE, 15, INSIDE),
        ((3, 2, 7, 28), INSIDE, 16, 0),
    ]
    # the way back reads the input, not what the way there made
    assert chained(one) == [False, True, False, True, True, True, True, True]
    # four of 6 rows x (56 biases; 7 units of 13)
    extras = [(e.name, e.flops, e.staged) for e in one.extras]
    assert extras == [("bias", 4 * 6 * 56, False), ("gates", 4 * 6 * 7 * 13, True)]


def test_projections_of_a_stack_with_its_batch_first() -> None:
    # 2 rows of 3 steps, 5 wide; 7 units projected to 3, which the next layer and step read
    first, second = [*lstm_parameters(5, 7, 3), t(3, 7)], [*lstm_parameters(3, 7, 3), t(3, 7)]
    inputs = [t(2, 3, 5), t(2, 2, 3), t(2, 2, 7), *first, *second]
    one = cost("aten.lstm", inputs, [t(2, 3, 3)], bidirectional=False, batch_first=True)
    assert stated(one) == [
        ((1, 6, 5, 28), 0, 3, INSIDE),
        ((3, 2, 3, 28), INSIDE, 4, INSIDE),
        ((3, 2, 7, 3), INSIDE, 7, INSIDE),
        ((1, 6, 3, 28), INSIDE, 8, INSIDE),
        ((3, 2, 3, 28), INSIDE, 9, INSIDE),
        ((3, 2, 7, 3), INSIDE, 12, 0),
    ]


@pytest.mark.parametrize(("mode", "gates", "per_unit"), [(2, 4, 13), (3, 3, 10), (0, 1, 2)])
def test_gradients_of_a_recurrent_layer(mode: int, gates: int, per_unit: int) -> None:
    # 5 steps of 3 rows, 10 wide, 7 units; of both products g W^T and x^T g
    n = gates * 7
    parameters = [t(n, 10), t(n, 7), t(n), t(n)]
    inputs, outputs = [t(5, 3, 10), *parameters, t(1, 3, 7), t(1, 3, 7)], [t(5, 3, 10), *parameters]
    one = cost("aten.mkldnn_rnn_layer_backward", inputs, outputs, mode=mode)
    assert stated(one) == [
        ((1, 15, n, 10), INSIDE, 1, 0),
        ((1, 10, 15, n), 0, INSIDE, 1),
        ((5, 3, n, 7), INSIDE, 2, INSIDE),
        ((5, 7, 3, n), INSIDE, INSIDE, INSIDE),
    ]
    assert chained(one) == [False, False, True, True]
    assert {e.name: e.flops for e in one.extras} == {"bias": 2 * 15 * 2 * n, "gates": 2 * 15 * 7 * per_unit}


@pytest.mark.parametrize(
    ("name", "layout", "packed"),
    [("onnx.LSTM", 0, False), ("onnx.LSTM", 1, False), ("com.microsoft.DynamicQuantizeLSTM", 0, True)],
)
def test_both_directions_of_onnx_are_one_batch(name: str, layout: int, packed: bool) -> None:
    # 5 steps of 2 rows, 3 wide, 7 units each way; runtimes pack W and R transposed
    source, out = (t(2, 5, 3), t(2, 5, 2, 7)) if layout else (t(5, 2, 3), t(5, 2, 2, 7))
    weights = [t(2, 3, 28), t(2, 7, 28)] if packed else [t(2, 28, 3), t(2, 28, 7)]
    inputs = [source, *weights, t(2, 56), t(2, 21)]
    one = cost(name, inputs, [out], given=("X", "W", "R", "B", "P"), layout=layout)
    assert stated(one) == [((2, 10, 3, 28), 0, 1, INSIDE), ((10, 2, 7, 28), INSIDE, 2, 0)]
    assert chained(one) == [False, True]
    # 10 rows: 112 biases; 14 units of 13 and 3 peepholes of 2
    assert [(e.name, e.flops, e.staged) for e in one.extras] == [
        ("bias", 10 * 112, False),
        ("gates", 10 * 14 * 19, True),
    ]
