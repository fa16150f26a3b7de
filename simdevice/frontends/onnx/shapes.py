"""The types of a node's outputs: ONNX's own shape inference, one node at a time, with all contents known so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx
from onnx import NodeProto, TypeProto, defs, numpy_helper, shape_inference

from simdevice.frontends.onnx import contrib_shapes
from simdevice.frontends.onnx.values import Value

__all__ = ["Schemas", "infer"]

DATA_DECIDES = "how large its result is follows from data"
NO_SHAPE_RULE = "no shape rule for this operator"


class Schemas:
    """Operator schemas at a model's versions."""

    def __init__(self, opsets: Mapping[str, int]) -> None:
        self.opsets = dict(opsets)
        self.imports = [onnx.helper.make_opsetid(domain, version) for domain, version in self.opsets.items()]
        self._known: dict[tuple[str, str], defs.OpSchema | None] = {}

    def of(self, node: NodeProto) -> defs.OpSchema | None:
        """The schema, or None for an operator that onnx doesn't know."""
        key = (node.domain, node.op_type)
        if key not in self._known:
            domain = "" if node.domain == "ai.onnx" else node.domain
            version = self.opsets.get(node.domain, self.opsets.get(domain, 0))
            try:
                self._known[key] = defs.get_schema(node.op_type, version, domain)
            except defs.SchemaError:
                self._known[key] = None
        return self._known[key]


def infer(node: NodeProto, inputs: Sequence[Value | None], schemas: Schemas) -> tuple[list[TypeProto | None], str]:
    """One type per output (None: nothing is known) and, where some shape is open, why."""
    schema = schemas.of(node)
    if schema is None:
        found = contrib_shapes.infer(node, inputs, schemas)
        return (found, "") if found is not None else ([None] * len(node.output), NO_SHAPE_RULE)
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
    return [inferred.get(name) for name in node.output], DATA_DECIDES


def _said(error: Exception) -> str:
    """Shape inference's own words, without its prefixes."""
    text = " ".join(str(error).split())
    for prefix in ("[ShapeInferenceError]", "[TypeInferenceError]"):
        text = text.rpartition(prefix)[2].strip()
    return f"shape inference fails: {text[:160]}"
