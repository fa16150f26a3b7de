"""Quantised operators as files spell them: DequantizeLinear, an operator on floats, QuantizeLinear.

A runtime makes one operator in the quantised type of the three, and so does a walk:

1. DequantizeLinear waits: its result knows the tensor that it is `stored` as. It becomes a row when somebody wants the
   floats: a result of the graph, a body, an operator that is not quantised.
2. An operator whose activations are all stored quantised and whose results are only quantised again reads and writes
   the quantised tensors. An activation function between it and QuantizeLinear is such an operator too.
3. QuantizeLinear of such a result is no row.
4. Any other operator reads a dequantised weight as it is stored; a layout operator on one is the weight.

Example: x8 -> DequantizeLinear -> Conv(w8 -> DequantizeLinear, b32 -> DequantizeLinear) -> QuantizeLinear is one Conv
of (uint8, int8, int32) to uint8.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from onnx import GraphProto, NodeProto

from simdevice.frontends.onnx.nodes import attribute, canonical_name, implicit_reads
from simdevice.frontends.onnx.values import Value, dtype_name

if TYPE_CHECKING:
    from simdevice.frontends.onnx.walker import Environment, GraphWalker

__all__ = ["Readers", "flush", "readers_of", "take"]

Inputs = Sequence[Value | None]
Readers = dict[str, list[NodeProto | None]]
"""Who reads a name in its graph; None for a result of the graph, or a body."""

_DEQUANTIZE = ("com.microsoft.DequantizeLinear", "onnx.DequantizeLinear")
_QUANTIZE = ("com.microsoft.QuantizeLinear", "onnx.QuantizeLinear")
_ACTIVATIONS = frozenset(
    f"onnx.{name}" for name in ("Clip", "HardSigmoid", "HardSwish", "LeakyRelu", "Relu", "Sigmoid")
)
_LAYOUT = frozenset(f"onnx.{n}" for n in ("Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"))
_SCALED = frozenset(("onnx.MatMul",))
"""Operators whose rule reads what follows their operands: a weight's scales and zero points."""


def readers_of(graph: GraphProto, nodes: Sequence[NodeProto]) -> Readers:
    """By name, what reads it."""
    readers: Readers = {result.name: [None] for result in graph.output}
    for node in nodes:
        for name in node.input:
            readers.setdefault(name, []).append(node)
        for name in implicit_reads(node):
            readers.setdefault(name, []).append(None)
    return readers


def take(
    walker: GraphWalker, node: NodeProto, inputs: Inputs, env: Environment, readers: Readers
) -> list[Value] | None:
    """The node's outputs where it is part of a quantised operator, or reads stored weights; else None."""
    name = canonical_name(node)
    if name in _DEQUANTIZE and inputs and inputs[0] is not None and inputs[0].resolved:
        outputs = walker.types(node, inputs)
        if outputs[0].resolved:
            beside = [v for v in inputs[1:] if v is not None]
            outputs[0].stored, outputs[0].scales = inputs[0], beside
            outputs[0].waiting = walker.waiting(node, inputs, outputs)
            walker.emitter.mark("free")
            return outputs
    if name in _QUANTIZE and inputs and inputs[0] is not None and inputs[0].is_result:
        stored = inputs[0].stored
        if stored is not None:
            walker.types(node, inputs)  # a profile counts its executions
            return [replace(stored)]
    if not any(v is not None and v.stored is not None for v in inputs):
        return None
    if _is_quantised(node, inputs, readers):
        outputs = walker.types(node, inputs)
        if all(v.resolved for v in outputs):
            return _whole(walker, node, inputs, outputs, env, readers)
    if name in _LAYOUT and (first := inputs[0]) is not None and first.stored is not None and first.stored.constant:
        outputs = walker.types(node, inputs)
        if outputs[0].resolved:
            stored = replace(first.stored, shape=outputs[0].shape, data=None)
            outputs[0].stored, outputs[0].scales = stored, first.scales
            outputs[0].waiting = partial(flush, first)
            walker.emitter.mark("folded")
            return outputs
    return _stored_weights(walker, node, inputs)


def flush(value: Value | None) -> None:
    """Somebody wants the floats: the row of a DequantizeLinear that waited."""
    if value is not None and value.waiting is not None:
        waiting, value.waiting = value.waiting, None
        waiting()


def _only_reader(name: str, readers: Readers) -> NodeProto | None:
    users = readers.get(name, [])
    return users[0] if len(users) == 1 else None


def _quantizer(name: str, readers: Readers) -> NodeProto | None:
    """The QuantizeLinear that alone reads a result, perhaps behind an activation function."""
    for _ in range(2):
        reader = _only_reader(name, readers)
        if reader is None or canonical_name(reader) in _QUANTIZE:
            return reader
        if canonical_name(reader) not in _ACTIVATIONS:
            return None
        name = reader.output[0]
    return None


def _is_quantised(node: NodeProto, inputs: Inputs, readers: Readers) -> bool:
    """What it reads is stored quantised, constants aside, and each result is quantised again."""
    activations = [v for v in inputs if v is not None and not v.constant]
    results = [name for name in node.output if name and name in readers]
    return (
        bool(results)
        and all(v.stored is not None for v in activations)
        and all(_quantizer(name, readers) is not None for name in results)
    )


def _whole(
    walker: GraphWalker, node: NodeProto, inputs: Inputs, outputs: list[Value], env: Environment, readers: Readers
) -> list[Value]:
    """One row on the quantised tensors."""
    stored_inputs = [v.stored if v is not None and v.stored is not None else v for v in inputs]
    stored_outputs = []
    for name, value in zip(node.output, outputs, strict=True):
        quantizer = _quantizer(name, readers)
        dtype = _result_type(quantizer, env) if quantizer is not None else value.dtype
        stored_outputs.append(replace(value, dtype=dtype, proto=None))
    walker.emit(node, stored_inputs, stored_outputs)
    for value, stored in zip(outputs, stored_outputs, strict=True):
        value.storage, value.stored, value.is_result = stored.storage, stored, True
    return outputs


def _result_type(quantizer: NodeProto, env: Environment) -> str:
    """The type that QuantizeLinear gives: its zero point's, what it says, or uint8."""
    zero_point = env.get(quantizer.input[2]) if len(quantizer.input) > 2 and quantizer.input[2] else None
    if zero_point is not None and zero_point.dtype:
        return zero_point.dtype
    return dtype_name(int(attribute(quantizer, "output_dtype", 0))) or "uint8"


def _stored_weights(walker: GraphWalker, node: NodeProto, inputs: Inputs) -> list[Value] | None:
    """Floats but for dequantised weights, which are read as they are stored."""
    weights = [v for v in inputs if v is not None and v.stored is not None and v.stored.is_weight]
    if not weights:
        return None
    outputs = walker.types(node, inputs)
    read: list[Value | None] = []
    for value in inputs:
        if value is not None and any(value is w for w in weights):
            read.append(value.stored)
        else:
            flush(value)
            read.append(value)
    if canonical_name(node) in _SCALED:
        read += [scale for value in weights for scale in value.scales]
    walker.emit(node, read, outputs)
    return outputs
