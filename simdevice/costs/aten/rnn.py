"""Recurrent layers and cells of ATen: where their parameters stand."""

from __future__ import annotations

from functools import partial

from simdevice.costs.arithmetic.recurrent import (
    GRU,
    LSTM,
    RNN,
    Cell,
    Layer,
    cell_gradients,
    cell_step,
    layers,
    stack_of,
)
from simdevice.costs.aten._common import aten
from simdevice.costs.registry import register
from simdevice.records import Cost, Signature

__all__: list[str] = []


def _layer(signature: Signature, *, backward: bool) -> Cost:
    """One layer and direction of oneDNN: the sequence (steps, batch, features), two weights, two biases, states.

    oneDNN and cuDNN number their cells: 0 and 1 are plain RNNs, 2 LSTM, 3 GRU.
    """
    cell = {2: LSTM, 3: GRU}.get(signature.attribute("mode", 0), RNN)
    sequence, weight, recurrent = (t.shape for t in signature.inputs[:3])
    units = weight[0] // cell.gates
    biases = sum(t.shape[0] for t in signature.inputs[3:5] if len(t.shape) == 1)
    only = Layer(0, 1, 2, weight[1], units, recurrent[1], biases, result=0)
    rows = signature.inputs[0].numel // max(sequence[-1], 1)
    return layers(signature, cell, [only], sequence[0], rows, backward=backward)


@register("aten.mkldnn_rnn_layer", attributes=("mode",))
def layer(signature: Signature) -> Cost:
    """Forward."""
    return _layer(signature, backward=False)


@register("aten.mkldnn_rnn_layer_backward", attributes=("mode",))
def layer_backward(signature: Signature) -> Cost:
    """Gradients of inputs and of weights: twice the forward."""
    return _layer(signature, backward=True)


# Whole stacks, where a program was traced before they are decomposed

STACK = ("batch_first", "bidirectional")


def _stack(signature: Signature, cell: Cell, states: int) -> Cost:
    """The sequence, the states, then every layer's parameters. Of a packed sequence the data (rows, features) and the
    batch size of each step, which is data: rows are shared out evenly over the steps."""
    sequence = signature.inputs[0]
    packed = len(signature.inputs[1].shape) == 1
    steps = signature.inputs[1].numel if packed else sequence.shape[bool(signature.attribute("batch_first"))]
    stack = stack_of(signature, cell, 1 + packed + states, 1 + bool(signature.attribute("bidirectional")))
    return layers(signature, cell, stack, steps, sequence.numel // max(sequence.shape[-1], 1))


@register("aten.lstm", attributes=STACK)
def lstm(signature: Signature) -> Cost:
    """Two states: hidden and cell."""
    return _stack(signature, LSTM, states=2)


@register("aten.gru", attributes=STACK)
def gru(signature: Signature) -> Cost:
    """One state."""
    return _stack(signature, GRU, states=1)


@register(*aten("rnn_relu rnn_tanh"), attributes=STACK)
def rnn(signature: Signature) -> Cost:
    """One state."""
    return _stack(signature, RNN, states=1)


# Cells: the products were taken before, as matmuls

register("aten._thnn_fused_lstm_cell")(partial(cell_step, cell=LSTM))
register("aten._thnn_fused_gru_cell")(partial(cell_step, cell=GRU))
register(*aten("_thnn_fused_lstm_cell_backward_impl _thnn_fused_lstm_cell_backward"))(
    partial(cell_gradients, cell=LSTM)
)
register("aten._thnn_fused_gru_cell_backward")(partial(cell_gradients, cell=GRU))
