"""Recurrent layers and cells: every weight meets every step once; the gates' arithmetic is elementwise."""

from __future__ import annotations

from simdevice.costs.aten._common import aten, elements
from simdevice.costs.registry import register, streamed
from simdevice.records import Cost, Signature

__all__: list[str] = []

LSTM_FLOPS_PER_UNIT = 13
"""4 gates: add the two products (4), activate (4); c' = f*c + i*g (3); h = o*tanh(c') (2)."""

GRU_FLOPS_PER_UNIT = 10
"""r and z: add, activate (4); n = tanh(x + r*h) (3); h' = n + z*(h - n) (3)."""

RNN_FLOPS_PER_UNIT = 2
"""Add the two products, activate."""

GATES = {LSTM_FLOPS_PER_UNIT: 4, GRU_FLOPS_PER_UNIT: 3, RNN_FLOPS_PER_UNIT: 1}


def _layer(signature: Signature, per_unit: int, passes: int = 1) -> Cost:
    """The first input holds the sequence: all but its last dimension are steps. Two-dimensional tensors after it are
    weights (2 FLOPs per element and step), one-dimensional ones biases (1).

    Weights come in pairs (input and hidden), each with a row per gate and unit.
    """
    sequence, rest = signature.inputs[0], signature.inputs[1:]
    steps = sequence.numel // max(sequence.shape[-1], 1)
    weights = [t for t in rest if len(t.shape) == 2]
    biases = [t for t in rest if len(t.shape) == 1]
    units = sum(t.shape[0] for t in weights) // (2 * GATES[per_unit])
    per_step = 2 * elements(weights) + elements(biases) + per_unit * units
    return streamed(signature, "matmul", passes * steps * per_step)


def _mode(signature: Signature) -> int:
    """oneDNN and cuDNN number their cells: 0 and 1 are plain RNNs, 2 LSTM, 3 GRU."""
    return {2: LSTM_FLOPS_PER_UNIT, 3: GRU_FLOPS_PER_UNIT}.get(signature.attribute("mode", 0), RNN_FLOPS_PER_UNIT)


@register("aten.mkldnn_rnn_layer", attributes=("mode",))
def layer(signature: Signature) -> Cost:
    """One layer and direction of oneDNN: input, two weights, two biases, states."""
    return _layer(signature, _mode(signature))


@register("aten.mkldnn_rnn_layer_backward", attributes=("mode",))
def layer_backward(signature: Signature) -> Cost:
    """Gradients of inputs and of weights: twice the forward."""
    return _layer(signature, _mode(signature), passes=2)


@register("aten.lstm")
def lstm(signature: Signature) -> Cost:
    """The whole stack, before it is decomposed."""
    return _layer(signature, LSTM_FLOPS_PER_UNIT)


@register("aten.gru")
def gru(signature: Signature) -> Cost:
    """The whole stack, before it is decomposed."""
    return _layer(signature, GRU_FLOPS_PER_UNIT)


@register(*aten("rnn_relu rnn_tanh"))
def rnn(signature: Signature) -> Cost:
    """The whole stack, before it is decomposed."""
    return _layer(signature, RNN_FLOPS_PER_UNIT)


# Cells: the products were taken before, as matmuls


def _cell(signature: Signature, flops_per_unit: int, hidden: int) -> Cost:
    """`hidden` units of the whole batch; biases add 1 per gate and unit."""
    gates, biases = signature.inputs[0].numel, [t for t in signature.inputs[2:] if len(t.shape) == 1]
    return streamed(signature, "elementwise", flops_per_unit * hidden + gates * len(biases))


@register("aten._thnn_fused_lstm_cell")
def lstm_cell(signature: Signature) -> Cost:
    """input_gates, hidden_gates of (batch, 4*hidden), the cell state, perhaps two biases."""
    return _cell(signature, LSTM_FLOPS_PER_UNIT, signature.inputs[0].numel // 4)


@register("aten._thnn_fused_gru_cell")
def gru_cell(signature: Signature) -> Cost:
    """input_gates, hidden_gates of (batch, 3*hidden), the hidden state, perhaps two biases."""
    return _cell(signature, GRU_FLOPS_PER_UNIT, signature.inputs[0].numel // 3)


@register(*aten("_thnn_fused_lstm_cell_backward_impl _thnn_fused_lstm_cell_backward"))
def lstm_cell_backward(signature: Signature) -> Cost:
    """Twice the forward per unit; the first output holds the gradients of four gates."""
    return streamed(signature, "elementwise", 2 * LSTM_FLOPS_PER_UNIT * signature.outputs[0].numel // 4)


@register("aten._thnn_fused_gru_cell_backward")
def gru_cell_backward(signature: Signature) -> Cost:
    """Twice the forward per unit; the first output holds the gradients of three gates."""
    return streamed(signature, "elementwise", 2 * GRU_FLOPS_PER_UNIT * signature.outputs[0].numel // 3)
