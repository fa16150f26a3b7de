"""What an ONNX node is called, and what it says of itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onnx import AttributeProto, GraphProto, NodeProto, helper

from simdevice.records import Node

__all__ = [
    "attribute",
    "bodies",
    "canonical_name",
    "domain_of",
    "executed",
    "implicit_reads",
    "listed",
    "protos_of",
    "reads",
    "scope_of",
]


def domain_of(node: NodeProto) -> str:
    """The domain; the default one has two spellings, of which "" is given."""
    return "" if node.domain == "ai.onnx" else str(node.domain)


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


def reads(node: NodeProto) -> set[str]:
    """Every name that a node needs, those that its bodies take from around it included."""
    return {name for name in (*node.input, *implicit_reads(node)) if name}


def executed(graph: GraphProto) -> list[NodeProto]:
    """The nodes that some output of the graph needs, in order: a runtime leaves the others out."""
    kept: list[NodeProto] = []
    wanted = {o.name for o in graph.output}
    for node in reversed(graph.node):
        if wanted.intersection(node.output):
            kept.append(node)
            wanted |= reads(node)
    return kept[::-1]


def scope_of(node: NodeProto) -> str:
    """Where the exporter says the node is from: its own note of module names, else the path in the node's name."""
    for entry in node.metadata_props:
        if entry.key == "pkg.torch.onnx.name_scopes":
            names = [part.strip(" '\"") for part in entry.value.strip("[]").split(",")]
            return names[-2] if len(names) > 1 else ""
    return ".".join(part for part in node.name.split("/")[:-1] if part)


def listed(graph: GraphProto, path: str = "", parent: int = -1, before: int = 0) -> list[Node]:
    """Every node of a prepared graph, those of a body behind the node that runs it; the state says only which are dead.
    `before` is how many nodes were listed before this graph's."""
    kept = {node.name for node in executed(graph)}
    nodes: list[Node] = []
    for proto in graph.node:
        number = before + len(nodes)
        node = Node(
            proto.name.removeprefix(path),
            proto.op_type,
            domain_of(proto),
            path,
            parent,
            scope_of(proto),
            tuple(proto.input),
            implicit_reads(proto),
            tuple(proto.output),
            state="free" if proto.name in kept else "dead",
        )
        nodes.append(node)
        for attribute_name, body in bodies(proto):
            inside = f"{path}{node.name}/{attribute_name}/"
            nodes += listed(body, inside, number, before + len(nodes))
    return nodes


def protos_of(graph: GraphProto) -> Iterator[NodeProto]:
    """The same nodes in the same order, as they are in the model."""
    for proto in graph.node:
        yield proto
        for _, body in bodies(proto):
            yield from protos_of(body)
