"""Result shapes of operators on channels in blocks (domain com.microsoft.nchwc), which ONNX Runtime's last optimisation
level writes into a file."""

from __future__ import annotations

from collections.abc import Callable

from onnx import NodeProto, helper

__all__ = ["DOMAIN", "LIKE_ONNX", "RULES"]

DOMAIN = "com.microsoft.nchwc"

Shape = tuple[int, ...]

LIKE_ONNX: dict[str, tuple[str, tuple[int, ...]]] = {
    "AveragePool": ("AveragePool", (0,)),
    "Conv": ("Conv", (0, 1, 2)),
    "GlobalAveragePool": ("GlobalAveragePool", (0,)),
    "GlobalMaxPool": ("GlobalMaxPool", (0,)),
    "MaxPool": ("MaxPool", (0,)),
}
"""Their default operator and the inputs that it takes: blocks don't show in shapes but for channels filled up."""


def _into_blocks(node: NodeProto, shape: Shape) -> Shape:
    """Channels stay second; how far they are filled up is the writing machine's choice and unknown here."""
    return (shape[0], shape[-1], *shape[1:-1]) if _number(node, "channels_last") else shape


def _out_of_blocks(node: NodeProto, shape: Shape) -> Shape:
    channels = _number(node, "channels") or shape[1]
    return (shape[0], *shape[2:], channels) if _number(node, "channels_last") else (shape[0], channels, *shape[2:])


def _scaled(node: NodeProto, shape: Shape) -> Shape:
    scales = next(helper.get_attribute_value(a) for a in node.attribute if a.name == "scales")
    return tuple(n * int(by) for n, by in zip(shape, scales, strict=True))


def _number(node: NodeProto, name: str) -> int:
    return next((int(a.i) for a in node.attribute if a.name == name), 0)


RULES: dict[str, Callable[[NodeProto, Shape], Shape]] = {
    "ReorderInput": _into_blocks,
    "ReorderOutput": _out_of_blocks,
    "Upsample": _scaled,
}
"""By the shape of the first input."""
