"""The types of a node's outputs: ONNX's own shape inference, one node at a time, with all contents known so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnx
from onnx import NodeProto, TypeProto, defs, helper, numpy_helper, shape_inference

from simdevice.errors import CaptureError
from simdevice.frontends.onnx.nodes import attribute, canonical_name, domain_of
from simdevice.frontends.onnx.operators import Contributed, asked, blocked, known
from simdevice.frontends.onnx.operators.base import Results
from simdevice.frontends.onnx.values import Value, elem_type, number_of

__all__ = ["Schemas", "infer"]

DATA_DECIDES = "how large its result is follows from data"
NO_SHAPE_RULE = "no shape rule for this operator"


EARLIER = {"LayerNormalization": 17, "MeanVarianceNormalization": 9, "ThresholdedRelu": 10}
"""Operators of the default domain that ONNX Runtime has at every version, and their first one in ONNX: its fusions
write them into files below (onnxruntime/core/graph/contrib_ops/contrib_defs.cc)."""


class Schemas:
    """Operator schemas at a model's versions; `block` is how many channels are one where a file has them in blocks."""

    def __init__(self, opsets: Mapping[str, int], *, block: int = 1) -> None:
        self.opsets, self.block = dict(opsets), block
        self.imports = [onnx.helper.make_opsetid(domain, version) for domain, version in self.opsets.items()]
        self._known: dict[tuple[str, str], defs.OpSchema | None] = {}

    def of(self, node: NodeProto) -> defs.OpSchema | None:
        """The schema, or None for an operator that onnx doesn't know."""
        key = (node.domain, node.op_type)
        if key not in self._known:
            domain = domain_of(node)
            version = self.opsets.get(domain, self.opsets.get(node.domain, 0))
            if domain == "":
                version = max(version, EARLIER.get(node.op_type, 0))
            try:
                self._known[key] = defs.get_schema(node.op_type, version, domain)
            except defs.SchemaError:
                self._known[key] = None
        return self._known[key]


def infer(node: NodeProto, inputs: Sequence[Value | None], schemas: Schemas) -> tuple[list[TypeProto | None], str]:
    """One type per output (None: nothing is known) and, where some shape is open, why.

    Raises:
        CaptureError: an equation that no operands can fit.
    """
    if canonical_name(node) == "onnx.Einsum":
        _check_indices(node)
    schema, operator = schemas.of(node), known(node)
    if schema is None and operator is not None and operator.twin:
        return _as_twin(node, inputs, schemas, operator)
    told = asked(operator.rule, node, inputs) if operator is not None and operator.rule is not None else None
    if told is not None and canonical_name(node) == blocked.INTO_BLOCKS:
        told = blocked.filled(told, schemas.block)
    if schema is None:
        return _merged([None] * len(node.output), told), "" if told is not None else NO_SHAPE_RULE
    types = {n: v.type_proto() for n, v in zip(node.input, inputs, strict=False) if v is not None}
    data = {
        n: numpy_helper.from_array(v.data, n)
        for n, v in zip(node.input, inputs, strict=False)
        if v is not None and v.data is not None
    }
    try:
        inferred: Mapping[str, Any] = shape_inference.infer_node_outputs(
            schema, node, types, data, opset_imports=schemas.imports
        )
    except Exception as error:  # raised from C++ under several classes
        return [None] * len(node.output), _said(error)
    protos = [inferred.get(name) for name in node.output]
    repair = _REPAIRS.get(canonical_name(node))
    if repair is not None:
        repair(node, inputs, protos)
    return _merged(protos, told), DATA_DECIDES


def _check_indices(node: NodeProto) -> None:
    """Einsum's result has no index that is in no operand: no runtime takes such a file."""
    equation = attribute(node, "equation", b"").decode(errors="replace")
    operands, _, result = equation.partition("->")
    strange = sorted(set(result) - set(operands) - {" ", "."})
    if strange:
        raise CaptureError(
            f"node {node.name!r} (Einsum): expected indices of its operands in the result of {equation!r}, "
            f"got {', '.join(map(repr, strange))}"
        )


def _merged(protos: list[TypeProto | None], told: Results | None) -> list[TypeProto | None]:
    """What a rule tells counts; outputs that it doesn't name stay as they were inferred."""
    sure = [helper.make_tensor_type_proto(elem_type(dtype), shape) for shape, dtype in told or ()]
    return [*sure[: len(protos)], *protos[len(sure) :]]


def _as_twin(
    node: NodeProto, inputs: Sequence[Value | None], schemas: Schemas, operator: Contributed
) -> tuple[list[TypeProto | None], str]:
    """The same inputs through a default operator of which this is a fused or quantised form."""
    twin = NodeProto()
    twin.CopyFrom(node)
    chosen = [i for i in operator.twin_inputs if i < len(node.input)]
    twin.op_type, twin.domain = operator.twin, ""
    del twin.input[:]
    twin.input.extend(node.input[i] for i in chosen)
    plain = schemas.of(twin)
    if plain is None:
        return [None] * len(node.output), NO_SHAPE_RULE
    own = [a for a in node.attribute if a.name in plain.attributes]
    del twin.attribute[:]
    twin.attribute.extend(own)
    del twin.output[len(plain.outputs) :]
    protos, reason = infer(twin, [inputs[i] for i in chosen], schemas)
    return protos + [None] * (len(node.output) - len(protos)), reason


def _like_first(node: NodeProto, inputs: Sequence[Value | None], protos: list[TypeProto | None]) -> None:
    """No inference of its own (onnx 1.23): the result is like the first input."""
    if inputs[0] is not None and inputs[0].resolved:
        protos[0] = inputs[0].type_proto()


def _dropout(node: NodeProto, inputs: Sequence[Value | None], protos: list[TypeProto | None]) -> None:
    """Its inference passes over the mask's shape up to version 9 (onnx 1.23), which is the data's, as is its type."""
    mask = protos[1] if len(protos) > 1 else None
    if mask is not None and not mask.tensor_type.HasField("shape") and inputs[0] is not None and inputs[0].resolved:
        protos[1] = inputs[0].type_proto()


def _stft(node: NodeProto, inputs: Sequence[Value | None], protos: list[TypeProto | None]) -> None:
    """Its inference takes onesided=0 for the default (onnx 1.23); the operator's default is 1."""
    told = protos[0]
    if told is None or any(a.name == "onesided" for a in node.attribute) or len(told.tensor_type.shape.dim) != 4:
        return
    bins = told.tensor_type.shape.dim[2]
    length = number_of(inputs[3]) if len(inputs) > 3 else None
    window = inputs[2] if len(inputs) > 2 else None
    if length is None and window is not None and window.shape:
        length = window.shape[0]
    if length is not None and bins.dim_value == length:
        bins.dim_value = length // 2 + 1


def _max_unpool(node: NodeProto, inputs: Sequence[Value | None], protos: list[TypeProto | None]) -> None:
    """Its inference passes over a given output shape (onnx 1.23)."""
    shape = inputs[2] if len(inputs) > 2 else None
    if shape is not None and shape.data is not None and inputs[0] is not None:
        protos[0] = helper.make_tensor_type_proto(elem_type(inputs[0].dtype), [int(n) for n in shape.data])


_REPAIRS: dict[str, Callable[[NodeProto, Sequence[Value | None], list[TypeProto | None]], None]] = {
    "onnx.Dropout": _dropout,
    "onnx.GroupNormalization": _like_first,
    "onnx.MaxUnpool": _max_unpool,
    "onnx.MeanVarianceNormalization": _like_first,
    "onnx.STFT": _stft,
}
"""Where ONNX's own inference is missing or wrong."""


def _said(error: Exception) -> str:
    """Shape inference's own words, without its prefixes."""
    text = " ".join(str(error).split())
    for prefix in ("[ShapeInferenceError]", "[TypeInferenceError]"):
        text = text.rpartition(prefix)[2].strip()
    return f"shape inference fails: {text[:160]}"
