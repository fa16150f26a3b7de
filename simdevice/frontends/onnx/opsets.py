"""Which operator types a file uses, and since which opset each is what it is: what older targets refuse."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import onnx
from onnx import ModelProto, NodeProto

from simdevice.errors import SpecError
from simdevice.frontends.onnx.files import graphs, load

__all__ = ["OperatorType", "check_opset", "operator_types"]


@dataclass(frozen=True, slots=True)
class OperatorType:
    """A type of operators of a file. `opset` is the file's, of the type's domain; `since` the opset that brought the
    type as the file uses it, None for one that ONNX doesn't define (a runtime's or a vendor's own)."""

    domain: str
    type: str
    nodes: int
    opset: int | None
    since: int | None

    def is_refused(self, opset: int) -> bool:
        """Whether a target refuses it that knows ONNX's operators up to this opset and no other domain's."""
        return self.since is None or (self.domain == "ai.onnx" and self.since > opset)


def operator_types(path: str | os.PathLike[str]) -> tuple[OperatorType, ...]:
    """Every type in a file's graphs and bodies, its own functions taken apart; by domain and name.

    Raises:
        FileFormatError: no ONNX file, or a damaged one.
    """
    model = load(path)
    opsets = {entry.domain or "ai.onnx": entry.version for entry in model.opset_import}
    counts = Counter((node.domain or "ai.onnx", node.op_type) for node in _nodes(model))
    return tuple(
        OperatorType(domain, kind, count, opsets.get(domain), _since(domain, kind, opsets.get(domain)))
        for (domain, kind), count in sorted(counts.items())
    )


def check_opset(opset: int) -> None:
    """Raises SpecError for an opset that ONNX doesn't have (yet)."""
    newest = onnx.defs.onnx_opset_version()
    if not 1 <= opset <= newest:
        raise SpecError(f"expected an opset from 1 to {newest}, the newest of onnx {onnx.__version__}: got {opset}")


def _since(domain: str, kind: str, opset: int | None) -> int | None:
    try:
        newest = onnx.defs.onnx_opset_version()
        schema = onnx.defs.get_schema(kind, opset or newest, "" if domain == "ai.onnx" else domain)
    except onnx.defs.SchemaError:
        return None
    return int(schema.since_version)


def _nodes(model: ModelProto) -> Iterator[NodeProto]:
    for _, graph in graphs(model.graph):
        yield from graph.node
