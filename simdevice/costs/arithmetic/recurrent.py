"""Recurrent layers: the inputs of all steps are one product, the states a product for each step; gates are extras.

A layer with G gates of H units: (steps * batch, F) x (F, G H), then `steps` products (batch, H) x (H, G H), one after
the other. What a unit needs beside the products is counted per gate and step:

- LSTM 13: 4 gates: add the two products (4), activate (4); c' = f*c + i*g (3); h = o*tanh(c') (2).
- GRU 10: r and z: add, activate (4); n = tanh(x + r*h) (3); h' = n + z*(h - n) (3).
- RNN 2: add the two products, activate.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from simdevice.costs.arithmetic.basics import Place, contraction, product_of, split_evenly
from simdevice.costs.registry import streamed
from simdevice.records import INSIDE, Cost, Extra, Product, Signature

__all__ = ["GRU", "LSTM", "RNN", "Cell", "Layer", "cell_gradients", "cell_step", "layers", "stack_of"]


@dataclass(frozen=True, slots=True)
class Cell:
    """Gates of a unit, and its FLOPs beside the products."""

    gates: int
    flops_per_unit: int


LSTM, GRU, RNN = Cell(4, 13), Cell(3, 10), Cell(1, 2)


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer in one direction, or `directions` equal ones: places of its tensors, and its sizes.

    `source` is INSIDE where the layer before made it, `result` where the layer after takes it. `projection` is the
    place of an LSTM's matrix (`recurrent_width`, `units`).
    """

    source: Place
    weight: Place
    recurrent: Place
    width: int
    units: int
    recurrent_width: int
    biases: int = 0
    directions: int = 1
    projection: Place | None = None
    result: Place = INSIDE


def layers(
    signature: Signature,
    cell: Cell,
    stack: Sequence[Layer],
    steps: int,
    rows: int,
    *,
    backward: bool = False,
    peepholes: int = 0,
) -> Cost:
    """A stack over `rows` = steps x batch rows in all (of packed sequences, whatever is there, shared out evenly).

    Backward takes, for each of the two products y = x W, both gradients, g W^T and x^T g; gates are counted again.
    """
    products: list[Product] = []
    passes, units, biases = 1 + backward, 0, 0
    for layer in stack:
        gates = cell.gates * layer.units
        units += layer.units * layer.directions
        biases += layer.biases
        products += _input_products(signature, layer, gates, rows, backward=backward)
        for count, batch in split_evenly(rows, steps):
            forward = (count * layer.directions, batch, layer.recurrent_width, gates)
            out = layer.result if layer.projection is None else INSIDE
            if backward:
                products.append(product_of(signature, _transposed_b(forward), INSIDE, layer.recurrent, chained=True))
                products.append(product_of(signature, _transposed_a(forward), INSIDE, INSIDE, chained=True))
            else:
                products.append(product_of(signature, forward, INSIDE, layer.recurrent, out, chained=True))
            if layer.projection is not None:
                project = (count, batch, layer.units, layer.recurrent_width)
                products.append(product_of(signature, project, INSIDE, layer.projection, layer.result, chained=True))
    extras = (
        Extra("bias", passes * rows * biases),
        Extra("gates", passes * rows * units * (cell.flops_per_unit + peepholes), staged=True),
    )
    return contraction(signature, "matmul", products, extras)


def cell_step(signature: Signature, cell: Cell) -> Cost:
    """Gates of the input and of the state (batch, gates * units), taken before as products; biases are the vectors
    after them, 1 per gate and unit each."""
    gates, biases = signature.inputs[0].numel, [t for t in signature.inputs[2:] if len(t.shape) == 1]
    return streamed(signature, "elementwise", cell.flops_per_unit * (gates // cell.gates) + gates * len(biases))


def cell_gradients(signature: Signature, cell: Cell) -> Cost:
    """Twice the forward per unit; the first output holds the gradients of all gates."""
    return streamed(signature, "elementwise", 2 * cell.flops_per_unit * signature.outputs[0].numel // cell.gates)


def _input_products(signature: Signature, layer: Layer, gates: int, rows: int, *, backward: bool) -> Iterator[Product]:
    forward = (layer.directions, rows, layer.width, gates)
    if not backward:
        yield product_of(signature, forward, layer.source, layer.weight, chained=layer.source == INSIDE)
        return
    yield product_of(signature, _transposed_b(forward), INSIDE, layer.weight, 0)
    yield product_of(
        signature, _transposed_a(forward), layer.source, INSIDE, 1 if len(signature.outputs) > 1 else INSIDE
    )


def _transposed_b(dims: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
    """g W^T of y = x W: (m, n) x (n, k)."""
    batch, m, k, n = dims
    return batch, m, n, k


def _transposed_a(dims: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
    """x^T g of y = x W: (k, m) x (m, n)."""
    batch, m, k, n = dims
    return batch, k, m, n


def stack_of(signature: Signature, cell: Cell, first: int, directions: int) -> list[Layer]:
    """The layers of a list of parameters from input `first` on: per layer and direction two matrices (gates * units
    rows each), perhaps two biases, perhaps a projection."""
    stack: list[Layer] = []
    place, inputs = first, signature.inputs
    while place + 1 < len(inputs):
        weight, recurrent = inputs[place].shape, inputs[place + 1].shape
        units = weight[0] // cell.gates
        after = place + 2
        biases = 0
        while after < len(inputs) and len(inputs[after].shape) == 1:
            biases += inputs[after].shape[0]
            after += 1
        projection: Place | None = None
        if recurrent[1] != units:
            projection, after = after, after + 1
        source: Place = 0 if len(stack) < directions else INSIDE
        stack.append(Layer(source, place, place + 1, weight[1], units, recurrent[1], biases, projection=projection))
        place = after
    return [replace(layer, result=0) if i >= len(stack) - directions else layer for i, layer in enumerate(stack)]
