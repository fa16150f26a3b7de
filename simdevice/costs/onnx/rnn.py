"""Recurrent layers of ONNX: X (steps, batch, features), W (directions, gates * units, features), R (directions,
gates * units, units), B (directions, 2 * gates * units); `layout` 1 puts batch before steps in X.

The second dimension of W and R is the first of their transposes where a runtime has packed them, as its dynamic
quantisation does; the product is the same.
"""

from __future__ import annotations

from simdevice.costs.arithmetic.recurrent import GRU, LSTM, RNN, Cell, Layer, layers
from simdevice.costs.onnx._common import named, places
from simdevice.costs.registry import register
from simdevice.records import Cost, Signature

__all__: list[str] = []

LAYER = ("given", "layout")


def _layer(signature: Signature, cell: Cell, peepholes: int = 0) -> Cost:
    tensors, stands = named(signature), places(signature)
    source, (directions, *matrix) = tensors["X"], tensors["R"].shape
    units = min(matrix)  # gates * units x units: the smaller side, also of its transpose
    rows = source.numel // max(source.shape[-1], 1)
    steps = source.shape[1 if signature.attribute("layout") else 0]
    biases = tensors["B"].numel if "B" in tensors else 0
    width = tensors["W"].numel // max(directions * cell.gates * units, 1)
    only = Layer(stands["X"], stands["W"], stands["R"], width, units, units, biases, directions, result=0)
    return layers(signature, cell, [only], steps, rows, peepholes=peepholes)


@register("onnx.LSTM", "com.microsoft.DynamicQuantizeLSTM", attributes=LAYER)
def lstm(signature: Signature) -> Cost:
    """4 gates. Peepholes (P) are 3 more products per unit."""
    return _layer(signature, LSTM, 6 if "P" in places(signature) else 0)


@register("onnx.GRU", attributes=LAYER)
def gru(signature: Signature) -> Cost:
    """3 gates."""
    return _layer(signature, GRU)


@register("onnx.RNN", attributes=LAYER)
def rnn(signature: Signature) -> Cost:
    """1 gate."""
    return _layer(signature, RNN)
