"""Convolutions against FlopCounterMode and against counting by hand."""

from __future__ import annotations

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from simdevice.costs import Costs
from simdevice.frontends.dispatch import DispatchRecorder
from simdevice.records import Origin


def trace_and_flop_counter(program):
    with FlopCounterMode(display=False) as counter, DispatchRecorder(Costs(), scopes=False) as recorder:
        program()
    return recorder.finish(Origin("test")), counter.get_total_flops()


def test_convolution_counts_products_bias_and_every_tensor_once(op):
    one = op(torch.conv2d, torch.ones(2, 3, 8, 8), torch.ones(16, 3, 3, 3), torch.ones(16), padding=1)
    # outputs 2*16*8*8 = 2,048, each 3*3*3 = 27 products: 2,048 * (2*27 + 1) = 112,640
    assert (one.category, one.flops) == ("convolution", 112_640)
    # input 384, weight 432, bias 16 elements read; 2,048 written; 4 bytes each
    assert (one.cost.bytes_read, one.cost.bytes_written) == (3_328, 8_192)


def test_depthwise_convolution_meets_one_channel_per_output(op):
    one = op(torch.conv2d, torch.ones(1, 8, 6, 6), torch.ones(8, 1, 3, 3), padding=1, groups=8)
    assert one.flops == 5_184  # 8*6*6 outputs * 9 products * 2


def test_transposed_convolution_counts_from_its_input(op):
    one = op(torch.conv_transpose2d, torch.ones(1, 4, 5, 5), torch.ones(4, 6, 2, 2), stride=2)
    assert one.flops == 4_800  # 4*5*5 inputs * 6*2*2 weights * 2


@given(
    batch=st.integers(1, 2),
    channels=st.integers(1, 4),
    out=st.integers(1, 4),
    kernel=st.integers(1, 3),
    stride=st.integers(1, 2),
    dims=st.integers(1, 3),
    transposed=st.booleans(),
)
def test_forward_and_backward_agree_with_flop_counter(batch, channels, out, kernel, stride, dims, transposed):
    maker = getattr(torch.nn, f"Conv{'Transpose' if transposed else ''}{dims}d")
    layer = maker(channels, out, kernel, stride=stride, bias=False)
    source = torch.ones(batch, channels, *[5] * dims, requires_grad=True)
    trace, theirs = trace_and_flop_counter(lambda: layer(source).sum().backward())
    assert trace.flops_in("convolution") == theirs


@given(groups=st.integers(2, 4), per_group=st.integers(1, 3), multiplier=st.integers(1, 3))
def test_groups_divide_the_work_of_a_full_convolution(groups, per_group, multiplier):
    channels, out = groups * per_group, groups * multiplier
    assume(channels > 1)
    source = torch.ones(1, channels, 6, 6, requires_grad=True)

    def total(g):
        layer = torch.nn.Conv2d(channels, out, 3, groups=g, bias=False)
        return trace_and_flop_counter(lambda: layer(source).sum().backward())[0].flops_in("convolution")

    assert total(groups) * groups == total(1)


@pytest.mark.parametrize(
    ("mask", "flops"),
    [
        ((True, False, False), 110_592),
        ((False, True, False), 110_592),
        ((False, False, True), 2_048),
        ((True, True, True), 223_232),
    ],
)
def test_backward_costs_what_is_asked_for(cost, mask, flops):
    # products as forward: 2,048 * 27 * 2 = 110,592; the bias gradient sums 2,048 elements
    shapes = [(2, 16, 8, 8), (2, 3, 8, 8), (16, 3, 3, 3)]
    assert cost("aten.convolution_backward", shapes, [(2, 3, 8, 8)], transposed=False, output_mask=mask).flops == flops


def test_every_way_to_run_a_convolution_costs_the_same(ops):
    source, weight, bias = torch.ones(2, 3, 8, 8), torch.ones(16, 3, 3, 3), torch.ones(16)
    ways = [
        lambda: torch.conv2d(source, weight, bias),
        lambda: torch.ops.aten._slow_conv2d_forward(source, weight, [3, 3], bias, [1, 1], [0, 0]),
        lambda: torch.ops.aten.mkldnn_convolution(source, weight, bias, [0, 0], [1, 1], [1, 1], 1),
        lambda: torch.ops.aten.slow_conv_dilated2d(source, weight, [3, 3], bias, [1, 1], [0, 0], [1, 1]),
    ]
    # outputs 2*16*6*6 = 1,152; 1,152 * (2*27 + 1) = 63,360
    assert [sum(o.flops for o in ops(way)) for way in ways] == [63_360] * len(ways)


def test_time_batch_channel_convolution(op):
    one = op(torch.conv_tbc, torch.ones(7, 2, 3), torch.ones(3, 3, 5), torch.ones(5))
    assert one.flops == 950  # (7-3+1)*2*5 = 50 outputs * (2 * 3*3 + 1)
