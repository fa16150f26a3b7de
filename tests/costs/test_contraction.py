"""Matrix products: 2 per multiply-add, 1 per output element for a bias; FlopCounterMode is the oracle."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from simdevice.costs import Costs
from simdevice.frontends.dispatch import DispatchRecorder
from simdevice.records import Origin, TensorSpec

SIZES = st.integers(1, 9)
A, B = torch.ones(4, 6), torch.ones(6, 5)


def both(program):
    """Our total, and PyTorch's."""
    with FlopCounterMode(display=False) as counter, DispatchRecorder(Costs(), scopes=False) as recorder:
        program()
    return recorder.finish(Origin("test")).flops, counter.get_total_flops()


def test_mm_counts_two_per_multiply_add_and_every_operand_once(op):
    one = op(A.mm, B)
    # 4 * 5 outputs * 6 products * 2 = 240; (24 + 30 + 20) elements * 4 bytes = 296
    assert (one.name, one.category, one.flops) == ("aten.mm", "matmul", 240)
    assert (one.cost.bytes_read, one.cost.bytes_written) == (216, 80)


@given(m=SIZES, k=SIZES, n=SIZES)
def test_mm_agrees_with_flop_counter(m, k, n):
    ours, theirs = both(lambda: torch.empty(m, k).mm(torch.empty(k, n)))
    assert ours == theirs == 2 * m * k * n


@given(b=SIZES, m=SIZES, k=SIZES, n=SIZES)
def test_bmm_agrees_with_flop_counter(b, m, k, n):
    ours, theirs = both(lambda: torch.empty(b, m, k).bmm(torch.empty(b, k, n)))
    assert ours == theirs == 2 * b * m * k * n


@given(m=SIZES, k=SIZES, n=SIZES)
def test_addmm_is_flop_counters_product_and_one_addition_per_output(m, k, n):
    ours, theirs = both(lambda: torch.addmm(torch.empty(n), torch.empty(m, k), torch.empty(k, n)))
    assert ours == theirs + m * n


@given(b=SIZES, m=SIZES, k=SIZES, n=SIZES)
def test_baddbmm_is_flop_counters_product_and_one_addition_per_output(b, m, k, n):
    ours, theirs = both(lambda: torch.baddbmm(torch.empty(b, m, n), torch.empty(b, m, k), torch.empty(b, k, n)))
    assert ours == theirs + b * m * n


@pytest.mark.parametrize(
    ("program", "flops"),
    [
        (lambda: torch.ones(6).dot(torch.ones(6)), 12),  # 2 * 6
        (lambda: A.mv(torch.ones(6)), 48),  # 4 outputs * 6 * 2
        (lambda: torch.addmv(torch.ones(4), A, torch.ones(6)), 52),  # 48 + 4
        (lambda: torch.addr(torch.ones(4, 5), torch.ones(4), torch.ones(5)), 60),  # 20 * (2 + 1)
        (lambda: torch.addbmm(torch.ones(4, 5), torch.ones(3, 4, 6), torch.ones(3, 6, 5)), 740),  # 20 * (2*3*6 + 1)
        (lambda: torch._int_mm(torch.ones(32, 16).to(torch.int8), torch.ones(16, 8).to(torch.int8)), 8192),  # 2*32*16*8
        (lambda: torch.ops.aten._addmm_activation(torch.ones(5), A, B), 280),  # 240 + 20 bias + 20 ReLU
    ],
    ids=["dot", "mv", "addmv", "addr", "addbmm", "int8", "activation"],
)
def test_products_of_other_shapes(ops, program, flops):
    assert sum(o.flops for o in ops(program) if o.category == "matmul") == flops


def test_bilinear_multiplies_twice_and_adds_once_per_triple(op):
    # 5 batch * 2 outputs * 3 * 4 triples * 3 = 360
    i1, i2, weight = torch.ones(5, 3), torch.ones(5, 4), torch.ones(2, 3, 4)
    one = op(torch.bilinear, i1, i2, weight)
    assert (one.name, one.flops) == ("aten._trilinear", 360)


@pytest.mark.parametrize(
    ("left", "right", "out", "flops"),
    [
        ((10, 4), (3, 4, 5), (10, 5), 400),  # 10 rows, each meets one of 3 matrices: 2 * 10 * 4 * 5
        ((3, 6, 4), (4, 9), (6, 9), 432),  # 9 columns in 3 groups, each meets one of 3 matrices: 2 * 6 * 4 * 9
        ((4, 10), (10, 5), (3, 4, 5), 400),  # depth 10 in 3 groups: 2 * 4 * 10 * 5
        ((3, 6, 4), (3, 4, 5), (3, 6, 5), 720),  # a plain batch: 2 * 3 * 6 * 4 * 5
    ],
    ids=["rows", "columns", "depth", "batch"],
)
def test_groups_cost_nothing_extra(cost, left, right, out, flops):
    ends = TensorSpec((3,), "int32")
    assert cost("aten._grouped_mm", [left, right, ends], [out]).flops == flops
    with_bias = flops + torch.Size(out).numel()
    assert cost("aten._grouped_mm", [left, right, ends, out[-1:]], [out]).flops == with_bias
    scales = [(1,), (1,)]
    assert cost("aten._scaled_grouped_mm", [left, right, *scales, ends], [out]).flops == flops
    assert cost("aten._scaled_grouped_mm", [left, right, *scales, ends, out[-1:]], [out]).flops == with_bias


def test_grouped_products_of_a_library_of_models(cost):
    """transformers brings an operator of its own for mixtures of experts: 6 rows of 8 meet 3 matrices of 8 x 4."""
    left, right, ends, out = (6, 8), (3, 8, 4), TensorSpec((3,), "int32"), (6, 4)
    assert cost("transformers.grouped_mm_fallback", [left, right, ends], [out]).flops == 2 * 6 * 8 * 4
    backward = cost("transformers.grouped_mm_fallback_backward", [left, right, ends, out], [left, right])
    assert (backward.category, backward.flops) == ("matmul", 2 * 2 * 6 * 8 * 4)


def test_scaled_mm_counts_the_bias_but_not_the_scales(cost):
    # 2 * 16 * 32 * 64 = 65,536; bias 16 * 64 = 1,024
    operands = [(16, 32), (32, 64), (), ()]
    assert cost("aten._scaled_mm", operands, [(16, 64)], "float8_e4m3fn").flops == 65_536
    assert cost("aten._scaled_mm", [*operands, (64,)], [(16, 64)], "float8_e4m3fn").flops == 66_560


def test_packed_float4_holds_two_values_per_element(cost):
    # 2 * 16 * (16 packed = 32 deep) * 64 = 65,536
    assert cost("aten._scaled_mm", [(16, 16), (16, 64), (), ()], [(16, 64)], "float4_e2m1fn_x2").flops == 65_536


@pytest.mark.parametrize(
    ("mask", "flops"),
    [
        ((True, False, False), 240),
        ((False, True, False), 240),
        ((False, False, True), 20),
        ((True, True, True), 500),
    ],
)
def test_linear_backward_costs_what_is_asked_for(cost, mask, flops):
    # input (4, 6), grad (4, 5), weight (5, 6): a product is 2 * 4 * 5 * 6 = 240, the bias 20 additions
    assert cost("aten.mkldnn_linear_backward", [(4, 6), (4, 5), (5, 6)], [], output_mask=mask).flops == flops


def test_weight_bytes_are_those_of_parameters_through_views(ops):
    layer = torch.nn.Linear(6, 5, bias=False)
    with DispatchRecorder(Costs(), layer, scopes=False) as recorder, torch.no_grad():
        layer(torch.ones(4, 6))
    trace = recorder.finish(Origin("test"))
    # the transposed weight: 30 elements * 4 bytes
    assert trace.weight_bytes == 120
    assert trace.bytes_read == 120 + 96


def test_scales_of_every_column_are_no_bias(cost):
    # 2 * 16 * 32 * 64 = 65,536; scales of 16 rows and of 64 columns, then a bias of 1,024 additions
    operands = [(16, 32), (32, 64), (16,), (64,)]
    assert cost("aten._scaled_mm", operands, [(16, 64)], "float8_e4m3fn").flops == 65_536
    assert cost("aten._scaled_mm", [*operands, (64,)], [(16, 64)], "float8_e4m3fn").flops == 66_560
