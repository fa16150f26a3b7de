"""The nodes of an FX graph and of the graphs it calls, listed for a map of which node each row came from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.fx import GraphModule, Node

from simdevice import records

__all__ = ["Numbers", "held_by", "listed"]

Numbers = dict[tuple[int, Node], int]
"""A node's number, by the number of the node that calls its graph (-1: none) and the node: a graph called twice has its
nodes twice."""


def listed(module: GraphModule, scope: Callable[[Node], str], path: str = "") -> tuple[list[records.Node], Numbers]:
    """Every call in a graph, those of a sub-graph behind the node that calls it."""
    nodes: list[records.Node] = []
    numbers: Numbers = {}
    _list(module, scope, path, -1, nodes, numbers)
    return nodes, numbers


def _list(
    module: GraphModule,
    scope: Callable[[Node], str],
    path: str,
    parent: int,
    nodes: list[records.Node],
    numbers: Numbers,
) -> None:
    for node in module.graph.nodes:
        if node.op != "call_function":
            continue
        number = numbers[parent, node] = len(nodes)
        reads = tuple(n.name for n in node.all_input_nodes)
        domain, kind = _named(node.target)
        nodes.append(records.Node(node.name, kind, domain, path, parent, scope(node), reads, (), (node.name,)))
        for name, graph in _called(module, node):
            _list(graph, scope, f"{path}{node.name}/{name}/", number, nodes, numbers)


def _called(module: GraphModule, node: Node) -> Iterator[tuple[str, GraphModule]]:
    for source in node.all_input_nodes:
        if source.op == "get_attr":
            held = held_by(module, source)
            if isinstance(held, GraphModule):
                yield str(source.target), held


def held_by(module: GraphModule, node: Node) -> Any:
    """What a graph's `get_attr` node names: a constant, or a graph that another node calls."""
    held: Any = module
    for part in str(node.target).split("."):
        held = getattr(held, part)
    return held


def _named(target: Any) -> tuple[str, str]:
    """Namespace and target: ("aten", "aten.mm.default"), ("higher_order", "cond"), ("_operator", "getitem")."""
    if isinstance(target, torch._ops.OpOverload):
        return target.namespace, str(target)
    if isinstance(target, torch._ops.HigherOrderOperator):
        return "higher_order", str(target)
    return str(getattr(target, "__module__", "")), str(getattr(target, "__name__", target))
