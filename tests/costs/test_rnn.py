"""Recurrent layers: one fused operator costs what its products and gates cost."""

from __future__ import annotations

import pytest
import torch


def layer_flops(steps, width, hidden, gates, per_unit, biases=2):
    """Two products per step, biases, gates: the closed form."""
    return steps * (2 * gates * hidden * (width + hidden) + biases * gates * hidden + per_unit * hidden)


def test_fused_lstm_layer_matches_the_closed_form(ops):
    lstm, source = torch.nn.LSTM(5, 7), torch.ones(3, 2, 5)
    with torch.no_grad():
        rows = [o for o in ops(lstm, source) if o.name == "aten.mkldnn_rnn_layer"]
    # 3 * 2 = 6 steps of an LSTM with 4 gates, 13 FLOPs per unit
    assert [o.flops for o in rows] == [layer_flops(6, 5, 7, 4, 13)]


@pytest.mark.parametrize(
    ("name", "gates", "per_unit"), [("aten.lstm", 4, 13), ("aten.gru", 3, 10), ("aten.rnn_tanh", 1, 2)]
)
def test_whole_stacks_match_the_closed_form_layer_by_layer(cost, name, gates, per_unit):
    width, hidden = 5, 7
    state = [(2, 2, hidden)] * (2 if name == "aten.lstm" else 1)
    rows = gates * hidden
    first, second = (
        [(rows, width), (rows, hidden), (rows,), (rows,)],
        [(rows, hidden), (rows, hidden), (rows,), (rows,)],
    )
    got = cost(name, [(3, 2, width), *state, *first, *second], [(3, 2, hidden)])
    assert got.flops == layer_flops(6, 5, 7, gates, per_unit) + layer_flops(6, 7, 7, gates, per_unit)


@pytest.mark.parametrize(
    ("name", "gates", "per_unit"), [("aten._thnn_fused_lstm_cell", 4, 13), ("aten._thnn_fused_gru_cell", 3, 10)]
)
def test_fused_cell_counts_gates_and_biases(cost, name, gates, per_unit):
    batch, hidden = 2, 7
    gate, state, bias = (batch, gates * hidden), (batch, hidden), (gates * hidden,)
    assert cost(name, [gate, gate, state], [state]).flops == batch * hidden * per_unit
    with_biases = batch * hidden * (per_unit + 2 * gates)
    assert cost(name, [gate, gate, state, bias, bias], [state]).flops == with_biases


def test_lstm_decomposed_into_operators_costs_the_same_as_the_fused_layer(ops):
    lstm, source = torch.nn.LSTM(5, 7), torch.ones(3, 2, 5)
    with torch.no_grad():
        fused = sum(o.flops for o in ops(lstm, source))
        torch._C._set_mkldnn_enabled(False)
        try:
            decomposed = sum(o.flops for o in ops(lstm, source))
        finally:
            torch._C._set_mkldnn_enabled(True)
    assert decomposed == fused


@pytest.mark.parametrize(
    ("name", "gates", "per_unit"),
    [("aten._thnn_fused_lstm_cell_backward_impl", 4, 13), ("aten._thnn_fused_gru_cell_backward", 3, 10)],
)
def test_a_cell_backward_is_twice_its_forward_per_unit(cost, name, gates, per_unit):
    # 2 x 7 units; the gradients of all gates are the first output
    gate, state = (2, gates * 7), (2, 7)
    assert cost(name, [state, gate], [gate, state]).flops == 2 * per_unit * 14
