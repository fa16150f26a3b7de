"""What an ONNX node is called, and what it says of itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onnx import AttributeProto, GraphProto, NodeProto, helper

__all__ = ["attribute", "bodies", "canonical_name", "domain_of", "implicit_reads", "is_default"]


def domain_of(node: NodeProto) -> str:
    """The domain; the default one has two spellings, of which "" is given."""
    return "" if node.domain == "ai.onnx" else str(node.domain)


def is_default(node: NodeProto) -> bool:
    """Whether the node is one of ONNX's own operators: a `Conv` of another domain is another operator."""
    return not domain_of(node)


def canonical_name(node: NodeProto) -> str:
    """`onnx.MatMul`, or `com.microsoft.FusedMatMul` for another domain."""
    return f"{domain_of(node) or 'onnx'}.{node.op_type}"


def attribute(node: NodeProto, name: str, default: Any = None) -> Any:
    """A node's attribute as a Python value."""
    for held in node.attribute:
        if held.name == name:
            return helper.get_attribute_value(held)
    return default


def bodies(node: NodeProto) -> Iterator[tuple[str, GraphProto]]:
    """The graphs that a node runs, each with its attribute's name."""
    for held in node.attribute:
        if held.type == AttributeProto.GRAPH:
            yield held.name, held.g
        elif held.type == AttributeProto.GRAPHS:
            yield from ((f"{held.name}[{number}]", graph) for number, graph in enumerate(held.graphs))


def implicit_reads(node: NodeProto) -> tuple[str, ...]:
    """Names that a node's bodies take from around it, in order of first use. A name that a body defines (an input, an
    initializer, a result) is its own, even where the same name exists outside."""
    names: dict[str, None] = {}
    for _, body in bodies(node):
        names.update(dict.fromkeys(_free(body)))
    return tuple(names)


def _free(graph: GraphProto) -> Iterator[str]:
    own = {v.name for v in graph.input}
    own.update(t.name for t in graph.initializer)
    own.update(t.values.name for t in graph.sparse_initializer)
    own.update(name for inner in graph.node for name in inner.output)
    for inner in graph.node:
        yield from (name for name in (*inner.input, *implicit_reads(inner)) if name and name not in own)
    yield from (result.name for result in graph.output if result.name not in own)
