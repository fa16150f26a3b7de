"""What is known of an operator that onnx has no schema for (or none that tells shapes), and what such knowledge is made
with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from onnx import NodeProto

from simdevice.frontends.onnx.nodes import attribute
from simdevice.frontends.onnx.values import Value

__all__ = [
    "Contributed",
    "Results",
    "Rule",
    "Shape",
    "asked",
    "broadcast",
    "dtype_at",
    "operator",
    "pooled",
    "shape_at",
    "value_at",
    "windows",
]

Shape = tuple[int, ...]
Results = list[tuple[Shape, str]]
"""Shape and element type by output; outputs beyond the end are unknown."""

Rule = Callable[[NodeProto, Sequence[Value | None]], Results]


@dataclass(frozen=True, slots=True)
class Contributed:
    """`inputs` are formal names (the last one repeats if `is_variadic`). Shapes come from a `rule`, or are those of
    `twin`, the default operator of which this is a form, on the inputs numbered in `twin_inputs`. Of the outputs in
    `stated` the rule knows a bound only, so that what the file says of them counts more."""

    inputs: tuple[str, ...] = ()
    rule: Rule | None = None
    twin: str = ""
    twin_inputs: tuple[int, ...] = ()
    is_variadic: bool = False
    stated: tuple[int, ...] = ()

    def formal(self, index: int) -> str:
        """The name of an input; its number where there is none."""
        if index < len(self.inputs):
            return self.inputs[index]
        return self.inputs[-1] if self.is_variadic else str(index)


def operator(
    inputs: str,
    rule: Rule | None = None,
    *,
    twin: str = "",
    twin_inputs: Sequence[int] = (),
    stated: Sequence[int] = (),
) -> Contributed:
    """From names in a row, `*` behind one that repeats."""
    names = tuple(name.removesuffix("*") for name in inputs.split())
    return Contributed(names, rule, twin, tuple(twin_inputs), inputs.endswith("*"), tuple(stated))


def asked(rule: Rule, node: NodeProto, inputs: Sequence[Value | None]) -> Results | None:
    """What a rule says; None where an input's shape is open, or the node holds what its operator doesn't take."""
    if any(v is not None and not v.resolved and not v.is_sequence for v in inputs):
        return None
    try:
        return rule(node, inputs)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, StopIteration):
        return None


def value_at(inputs: Sequence[Value | None], index: int) -> Value | None:
    """An input; None where it was left out."""
    return inputs[index] if index < len(inputs) else None


def shape_at(inputs: Sequence[Value | None], index: int = 0) -> Shape:
    """An input's shape.

    Raises:
        LookupError: the input was left out.
    """
    value = inputs[index]
    if value is None or value.shape is None:
        raise LookupError(index)
    return value.shape


def dtype_at(inputs: Sequence[Value | None], index: int = 0) -> str:
    """An input's element type.

    Raises:
        LookupError: the input was left out.
    """
    value = inputs[index]
    if value is None:
        raise LookupError(index)
    return value.dtype


def broadcast(a: Shape, b: Shape) -> Shape:
    """The shape that two shapes are stretched to."""
    size = max(len(a), len(b))
    left, right = (1,) * (size - len(a)) + a, (1,) * (size - len(b)) + b
    return tuple(y if x == 1 else x for x, y in zip(left, right, strict=True))


def windows(node: NodeProto, spatial: Sequence[int], kernel: Sequence[int]) -> list[int]:
    """How often a window fits along each dimension."""
    dims = len(spatial)
    strides = attribute(node, "strides", [1] * dims)
    dilations = attribute(node, "dilations", [1] * dims)
    pads = attribute(node, "pads", [0] * (2 * dims))
    if attribute(node, "auto_pad", b"NOTSET") in (b"SAME_UPPER", b"SAME_LOWER"):
        return [-(-n // s) for n, s in zip(spatial, strides, strict=True)]
    up = int(bool(attribute(node, "ceil_mode", 0)))
    return [
        (n + pads[i] + pads[i + dims] - dilations[i] * (kernel[i] - 1) - 1 + up * (strides[i] - 1)) // strides[i] + 1
        for i, n in enumerate(spatial)
    ]


def pooled(node: NodeProto, shape: Shape, *, channels_last: bool) -> Shape:
    """A window per place; without a kernel one window over everything."""
    batch, channels = shape[0], shape[-1 if channels_last else 1]
    spatial = shape[1:-1] if channels_last else shape[2:]
    kernel = attribute(node, "kernel_shape", spatial)
    sizes = windows(node, spatial, kernel)
    return (batch, *sizes, channels) if channels_last else (batch, channels, *sizes)
