"""Operators on channels in blocks (domain com.microsoft.nchwc), which ONNX Runtime's last optimisation level writes.

Blocks don't show in shapes but for channels filled up."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from onnx import GraphProto, NodeProto

from simdevice.frontends.onnx.nodes import attribute, canonical_name
from simdevice.frontends.onnx.operators.base import Contributed, Results, dtype_at, operator, shape_at
from simdevice.frontends.onnx.values import Value

__all__ = ["DOMAIN", "INTO_BLOCKS", "OPERATORS", "block_of", "filled"]

DOMAIN = "com.microsoft.nchwc"
INTO_BLOCKS = f"{DOMAIN}.ReorderInput"

BLOCKS = (16, 8)
"""Channels of a block, by the writing machine's registers (onnxruntime/core/mlas/lib/snchwc.cpp)."""


def block_of(graph: GraphProto) -> int:
    """How many channels are a block: the largest that divides what every blocked convolution reads and writes; 1 in a
    file without one. A first convolution reads channels that are in no blocks."""
    shapes = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    into = {name for node in graph.node if canonical_name(node) == INTO_BLOCKS for name in node.output}
    channels = 0
    for node in graph.node:
        weight = shapes.get(node.input[1], ()) if len(node.input) > 1 else ()
        if canonical_name(node) == f"{DOMAIN}.Conv" and len(weight) > 1:
            channels = gcd(channels, weight[0])
            if node.input[0] in into:
                channels = gcd(channels, weight[1] * attribute(node, "group", 1))
    return next((block for block in BLOCKS if channels and channels % block == 0), 1)


def filled(told: Results, block: int) -> Results:
    """What ReorderInput gives: channels filled up to whole blocks."""
    return [((shape[0], -(-shape[1] // block) * block, *shape[2:]), dtype) for shape, dtype in told]


def _into_blocks(node: NodeProto, inputs: Sequence[Value | None]) -> Results:
    """Channels are second, not filled up yet: the writing machine's registers say how far (`filled`)."""
    shape = shape_at(inputs)
    moved = (shape[0], shape[-1], *shape[1:-1]) if attribute(node, "channels_last", 0) else shape
    return [(moved, dtype_at(inputs))]


def _out_of_blocks(node: NodeProto, inputs: Sequence[Value | None]) -> Results:
    shape = shape_at(inputs)
    channels = int(attribute(node, "channels", 0)) or shape[1]
    is_last = attribute(node, "channels_last", 0)
    return [((shape[0], *shape[2:], channels) if is_last else (shape[0], channels, *shape[2:]), dtype_at(inputs))]


def _scaled(node: NodeProto, inputs: Sequence[Value | None]) -> Results:
    scales = attribute(node, "scales")
    return [(tuple(n * int(by) for n, by in zip(shape_at(inputs), scales, strict=True)), dtype_at(inputs))]


OPERATORS: dict[str, Contributed] = {
    "AveragePool": operator("X", twin="AveragePool", twin_inputs=(0,)),
    "Conv": operator("X W B Sum", twin="Conv", twin_inputs=(0, 1, 2)),
    "GlobalAveragePool": operator("X", twin="GlobalAveragePool", twin_inputs=(0,)),
    "GlobalMaxPool": operator("X", twin="GlobalMaxPool", twin_inputs=(0,)),
    "MaxPool": operator("X", twin="MaxPool", twin_inputs=(0,)),
    "ReorderInput": operator("X", _into_blocks),
    "ReorderOutput": operator("X", _out_of_blocks),
    "Upsample": operator("X", _scaled),
}
