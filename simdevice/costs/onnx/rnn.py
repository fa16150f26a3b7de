"""Recurrent layers: every weight meets every step once; the gates' arithmetic is counted with the products."""

from __future__ import annotations

from simdevice.costs.aten.rnn import GRU_FLOPS_PER_UNIT, LSTM_FLOPS_PER_UNIT, RNN_FLOPS_PER_UNIT
from simdevice.costs.onnx._common import named
from simdevice.costs.registry import register, streamed
from simdevice.records import Cost, Signature

__all__: list[str] = []


def _layer(signature: Signature, per_unit: int) -> Cost:
    """X (steps, batch, features), W (directions, gates * units, features), R (directions, gates * units, units), and
    B (directions, 2 * gates * units) of biases, 1 each. `layout` only swaps steps and batch.

    The second dimension of W and R is the first of their transposes where a runtime has packed them, as its dynamic
    quantisation does; the product is the same.
    """
    given = named(signature)
    source, hidden = given["X"], given["R"]
    steps = source.numel // max(source.shape[-1], 1)
    directions, *matrix = hidden.shape
    units = min(matrix)  # gates * units x units: the smaller side, also of its transpose
    biases = given["B"].numel if "B" in given else 0
    weights = given["W"].numel + hidden.numel
    return streamed(signature, "matmul", steps * (2 * weights + biases + per_unit * units * directions))


@register("onnx.LSTM", "com.microsoft.DynamicQuantizeLSTM", attributes=("given",))
def lstm(signature: Signature) -> Cost:
    """4 gates. Peepholes (P) are 3 more products per unit."""
    peepholes = 6 if "P" in signature.attribute("given", ()) else 0
    return _layer(signature, LSTM_FLOPS_PER_UNIT + peepholes)


@register("onnx.GRU", attributes=("given",))
def gru(signature: Signature) -> Cost:
    """3 gates."""
    return _layer(signature, GRU_FLOPS_PER_UNIT)


@register("onnx.RNN", attributes=("given",))
def rnn(signature: Signature) -> Cost:
    """1 gate."""
    return _layer(signature, RNN_FLOPS_PER_UNIT)
