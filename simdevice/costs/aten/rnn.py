"""Recurrent layers and cells: every weight meets every step once; the gates' arithmetic is elementwise."""

from __future__ import annotations

from collections.abc import Sequence

from simdevice.costs.aten._common import aten, elements
from simdevice.costs.registry import register, streamed
from simdevice.records import Cost, Signature, TensorSpec

__all__: list[str] = []

LSTM_FLOPS_PER_UNIT = 13
"""4 gates: add the two products (4), activate (4); c' = f*c + i*g (3); h = o*tanh(c') (2)."""

GRU_FLOPS_PER_UNIT = 10
"""r and z: add, activate (4); n = tanh(x + r*h) (3); h' = n + z*(h - n) (3)."""

RNN_FLOPS_PER_UNIT = 2
"""Add the two products, activate."""

GATES = {LSTM_FLOPS_PER_UNIT: 4, GRU_FLOPS_PER_UNIT: 3, RNN_FLOPS_PER_UNIT: 1}


def _layers(signature: Signature, per_unit: int, parameters: Sequence[TensorSpec], passes: int = 1) -> Cost:
    """The first input holds the sequence: all but its last dimension are steps. Matrices among the parameters are
    weights (2 FLOPs per element and step), vectors biases (1).

    Weights come in pairs (input and hidden), each with a row per gate and unit.
    """
    sequence = signature.inputs[0]
    steps = sequence.numel // max(sequence.shape[-1], 1)
    weights = [t for t in parameters if len(t.shape) == 2]
    biases = [t for t in parameters if len(t.shape) == 1]
    units = sum(t.shape[0] for t in weights) // (2 * GATES[per_unit])
    per_step = 2 * elements(weights) + elements(biases) + per_unit * units
    return streamed(signature, "matmul", passes * steps * per_step)


def _mode(signature: Signature) -> int:
    """oneDNN and cuDNN number their cells: 0 and 1 are plain RNNs, 2 LSTM, 3 GRU."""
    return {2: LSTM_FLOPS_PER_UNIT, 3: GRU_FLOPS_PER_UNIT}.get(signature.attribute("mode", 0), RNN_FLOPS_PER_UNIT)


@register("aten.mkldnn_rnn_layer", attributes=("mode",))
def layer(signature: Signature) -> Cost:
    """One layer and direction of oneDNN: the sequence, two weights, two biases, states."""
    return _layers(signature, _mode(signature), signature.inputs[1:5])


@register("aten.mkldnn_rnn_layer_backward", attributes=("mode",))
def layer_backward(signature: Signature) -> Cost:
    """Gradients of inputs and of weights: twice the forward."""
    return _layers(signature, _mode(signature), signature.inputs[1:5], passes=2)


# Whole stacks, where a program was traced before they are decomposed


def _stack(signature: Signature, per_unit: int, states: int) -> Cost:
    """The sequence, for a packed one its batch sizes, the states, then every layer's parameters."""
    packed = len(signature.inputs[1].shape) == 1
    return _layers(signature, per_unit, signature.inputs[1 + packed + states :])


@register("aten.lstm")
def lstm(signature: Signature) -> Cost:
    """Two states: hidden and cell."""
    return _stack(signature, LSTM_FLOPS_PER_UNIT, states=2)


@register("aten.gru")
def gru(signature: Signature) -> Cost:
    """One state."""
    return _stack(signature, GRU_FLOPS_PER_UNIT, states=1)


@register(*aten("rnn_relu rnn_tanh"))
def rnn(signature: Signature) -> Cost:
    """One state."""
    return _stack(signature, RNN_FLOPS_PER_UNIT, states=1)


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
