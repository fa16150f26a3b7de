"""Operators on channels in blocks (domain com.microsoft.nchwc), which ONNX Runtime's last optimisation level writes.

Blocks don't show in shapes but for channels filled up."""

from __future__ import annotations

from collections.abc import Sequence

from onnx import NodeProto

from simdevice.frontends.onnx.nodes import attribute
from simdevice.frontends.onnx.operators.base import Contributed, Results, dtype_at, operator, shape_at
from simdevice.frontends.onnx.values import Value

__all__ = ["DOMAIN", "OPERATORS"]

DOMAIN = "com.microsoft.nchwc"


def _into_blocks(node: NodeProto, inputs: Sequence[Value | None]) -> Results:
    """Channels stay second; how far they are filled up is the writing machine's choice and unknown here."""
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
