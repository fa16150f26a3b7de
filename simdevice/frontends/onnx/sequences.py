"""ONNX operators on sequences and optionals: they hold tensors, and most of them move nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import NodeProto, TypeProto, ValueInfoProto

from simdevice.errors import SpecError
from simdevice.frontends.onnx.nodes import attribute, canonical_name
from simdevice.frontends.onnx.values import Value, dtype_name, number_of, of_array, sequence, shape_of

if TYPE_CHECKING:
    from simdevice.frontends.onnx.walker import GraphWalker

__all__ = ["contents", "handles", "held_by", "take"]

Inputs = Sequence[Value | None]
Handler = Callable[["GraphWalker", NodeProto, Inputs], list[Value]]


def handles(node: NodeProto, inputs: Inputs) -> bool:
    """Whether this module takes the node."""
    if canonical_name(node) == "onnx.Identity" and inputs and inputs[0] is not None:
        return inputs[0].is_sequence
    return canonical_name(node) in _HANDLERS


def take(walker: GraphWalker, node: NodeProto, inputs: Inputs) -> list[Value]:
    """Move what the node holds; gives its outputs."""
    return _HANDLERS[canonical_name(node)](walker, node, inputs)


def contents(proto: TypeProto, held: Any) -> Any:
    """What was given for an input: an array; a list of them for a sequence; None for an empty optional.

    Raises:
        SpecError: something else.
    """
    try:
        if proto.HasField("sequence_type"):
            return [contents(proto.sequence_type.elem_type, item) for item in held]
        if proto.HasField("optional_type"):
            return None if held is None else contents(proto.optional_type.elem_type, held)
        return np.asarray(held)
    except (TypeError, ValueError) as error:
        raise SpecError(f"expected an array for each tensor of an input, got {type(held).__name__} ({error})") from None


def held_by(proto: ValueInfoProto, inputs: Mapping[str, Any], storage: Callable[[], int]) -> Value:
    """An input that is no tensor, with what it holds where that was given."""
    if proto.name in inputs:
        return _holding(proto.type, inputs[proto.name], storage)
    value = sequence(None, f"input {proto.name!r} is no tensor")
    value.proto = proto.type
    return value


def _holding(proto: TypeProto, held: Any, storage: Callable[[], int]) -> Value:
    if proto.HasField("sequence_type"):
        value = sequence([_holding(proto.sequence_type.elem_type, item, storage) for item in held])
    elif proto.HasField("optional_type"):
        value = sequence([] if held is None else [_holding(proto.optional_type.elem_type, held, storage)])
    else:
        return of_array(held, storage())
    value.proto = proto
    return value


def _construct(walker: GraphWalker, node: NodeProto, inputs: Inputs) -> list[Value]:
    return [sequence([v for v in inputs if v is not None])]


def _insert(walker: GraphWalker, node: NodeProto, inputs: Inputs) -> list[Value]:
    held, item = inputs[0], inputs[1]
    if held is None or held.items is None or item is None:
        return [sequence(None)]
    place = number_of(inputs[2]) if len(inputs) > 2 else len(held.items)
    if place is None:
        return [sequence(None)]
    place = place if place >= 0 else len(held.items) + place
    return [sequence([*held.items[:place], item, *held.items[place:]])]


def _erase(walker: GraphWalker, node: NodeProto, inputs: Inputs) -> list[Value]:
    held = inputs[0]
    if held is None or not held.items:
        return [sequence(None)]
    place = number_of(inputs[1]) if len(inputs) > 1 else -1
    if place is None:
        return [sequence(None)]
    items = list(held.items)
    del items[place]
    return [sequence(items)]


def _at(walker: GraphWalker, node: NodeProto, inputs: Inputs) -> list[Value]:
    """The item; where the place is unknown, any one if all are alike."""
    held = inputs[0]
    place = number_of(inputs[1]) if len(inputs) > 1 else None
    if held is not None and held.items:
        if place is not None and -len(held.items) <= place < len(held.items):
            return [held.items[place]]
        if len({(v.shape, v.dtype) for v in held.items}) == 1:
            return [walker.fresh(held.items[0].shape, held.items[0].dtype)]
    if held is not None and held.items is None and held.proto is not None:  # its type may tell
        item = held.proto.sequence_type.elem_type
        if shape_of(item) is not None:
            return [walker.fresh(shape_of(item), dtype_name(item.tensor_type.elem_type))]
    return [Value(reason=f"node {node.name!r} ({node.op_type}): which item it takes follows from data")]


def _length(walker: GraphWalker, node: NodeProto, inputs: Inputs) -> list[Value]:
    held = inputs[0]
    if held is None or held.items is None:
        return [walker.fresh((), "int64")]
    return [walker.fresh((), "int64", data=np.array(len(held.items), np.int64))]


def _split(walker: GraphWalker, node: NodeProto, inputs: Inputs) -> list[Value]:
    """SplitToSequence: parts of the given sizes along an axis, or single slices (without it unless `keepdims`)."""
    source = inputs[0]
    sizes = inputs[1] if len(inputs) > 1 else None
    if source is None or source.shape is None or (sizes is not None and sizes.data is None):
        out = sequence(None)
        walker.emit(node, inputs, [out])
        return [out]
    axis = int(attribute(node, "axis", 0)) % max(len(source.shape), 1)
    length = source.shape[axis]
    keeps = sizes is not None or bool(attribute(node, "keepdims", 1))
    if sizes is None:
        parts = [1] * length
    elif sizes.data is not None and sizes.data.ndim:
        parts = [int(n) for n in sizes.data]
    else:
        step = max(number_of(sizes) or 1, 1)
        parts = [min(step, length - i) for i in range(0, length, step)]
    tail = source.shape[axis + 1 :]
    slices = [
        walker.fresh((*source.shape[:axis], *((n,) if keeps else ()), *tail), source.dtype, constant=source.constant)
        for n in parts
    ]
    out = sequence(slices)
    if source.constant:
        walker.emitter.mark("folded")
    else:
        walker.emit(node, inputs, [out])
    return [out]


def _concat(walker: GraphWalker, node: NodeProto, inputs: Inputs) -> list[Value]:
    """ConcatFromSequence: the items one after the other, or along a new axis."""
    held = inputs[0]
    if held is None or not held.items or any(not v.resolved for v in held.items):
        reason = held.reason if held is not None and held.items is None else "an item has no shape"
        out = Value(reason=f"node {node.name!r} ({node.op_type}): {reason}")
        walker.emit(node, inputs, [out])
        return [out]
    axis, is_new = int(attribute(node, "axis")), bool(attribute(node, "new_axis", 0))
    first: Any = held.items[0].shape
    if is_new:
        at = axis % (len(first) + 1)
        shape = (*first[:at], len(held.items), *first[at:])
    else:
        at = axis % len(first)
        shape = (*first[:at], sum((v.shape or ())[at] for v in held.items), *first[at + 1 :])
    out = walker.fresh(shape, held.items[0].dtype)
    walker.emit(node, inputs, [out])
    return [out]


def _empty(walker: GraphWalker, node: NodeProto, inputs: Inputs) -> list[Value]:
    return [sequence([])]


def _optional(walker: GraphWalker, node: NodeProto, inputs: Inputs) -> list[Value]:
    return [sequence([inputs[0]] if inputs and inputs[0] is not None else [])]


def _element(walker: GraphWalker, node: NodeProto, inputs: Inputs) -> list[Value]:
    """OptionalGetElement; since version 18 a tensor is its own element."""
    held = inputs[0]
    if held is not None and held.items:
        return [held.items[0]]
    return [held if held is not None and held.resolved else Value(reason="an optional that may be empty")]


def _identity(walker: GraphWalker, node: NodeProto, inputs: Inputs) -> list[Value]:
    return [inputs[0] or Value()]


def _has(walker: GraphWalker, node: NodeProto, inputs: Inputs) -> list[Value]:
    held = inputs[0] if inputs else None
    known = held is None or held.items is not None or held.resolved
    answer = np.array(held is not None and (held.resolved or bool(held.items)))
    return [walker.fresh((), "bool", data=answer if known else None)]


_HANDLERS: dict[str, Handler] = {
    "onnx.ConcatFromSequence": _concat,
    "onnx.Identity": _identity,
    "onnx.Optional": _optional,
    "onnx.OptionalGetElement": _element,
    "onnx.OptionalHasElement": _has,
    "onnx.SequenceAt": _at,
    "onnx.SequenceConstruct": _construct,
    "onnx.SequenceEmpty": _empty,
    "onnx.SequenceErase": _erase,
    "onnx.SequenceInsert": _insert,
    "onnx.SequenceLength": _length,
    "onnx.SplitToSequence": _split,
}
