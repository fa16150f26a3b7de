"""Walk an FX graph of ATen operators: shared by every front end whose program arrives as one.

It reads shapes and types off the nodes (`meta["val"]`), never runs anything, and does no capturing itself.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import sympy  # type: ignore[import-untyped]  # PyTorch's symbols are its
import torch
from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_leaves

from simdevice.errors import CaptureError
from simdevice.frontends import fx_control
from simdevice.frontends.emitter import Emitter, Known
from simdevice.frontends.fx_nodes import Numbers, held_by
from simdevice.frontends.schema import CallPlan, plain, plan_call, spec_of
from simdevice.records import PHASES

__all__ = ["FxWalker", "forward", "module_path", "whole"]

ALIASES = frozenset({"aten._unsafe_view"})
"""Views whose schema doesn't say that they are."""

_PARTS = frozenset("*")
"""What a schema writes on an argument whose views are returned as a list."""

Value = Any
"""Of a node: a Known, numbers, None, or lists of them."""


def whole(size: Any, symbols: Mapping[Any, int] | None = None) -> int:
    """A size as a number, symbols replaced by what they are; one that stays open raises.

    Raises:
        CaptureError: the size follows from data.
    """
    if isinstance(size, int):
        return size
    expression = sympy.sympify(sympy.sympify(size.node.expr).xreplace(dict(symbols or {})))
    if expression.is_number:
        return int(expression)
    raise CaptureError(f"a size ({expression}) follows from data, not from shapes: trace real tensors with 'dispatch'")


def module_path(node: Node) -> str:
    """The path of the module that a node was made in; of a backward node, of its forward's module."""
    stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack") or {}
    if not stack:
        return ""
    path = str(list(stack.values())[-1][0])
    return path.split("@", 1)[0]  # "@1" marks a second call of the same module


def forward(node: Node) -> int:
    """The phase of a graph without gradients."""
    return PHASES.index("forward")


class FxWalker:
    """Turns the nodes of a graph into rows.

    1. Tensor identity: an output that aliases an input by its operator's schema has the input's
       storage and, for a parameter, stays a weight; any other output is a fresh storage.
    2. Shapes, types and declared attributes make the signature, as for a dispatched call.
    3. Sub-graphs are walked in place (`fx_control`).

    `size` turns symbolic sizes into numbers; `scope` names a node's module; `phase` is an index into PHASES;
    `numbers` are the nodes' places in a list of all.
    """

    def __init__(
        self,
        emitter: Emitter,
        *,
        size: Callable[[Any], int] = whole,
        scope: Callable[[Node], str] = module_path,
        phase: Callable[[Node], int] = forward,
        numbers: Numbers | None = None,
    ) -> None:
        self.emitter = emitter
        self._numbers = numbers or {}
        self._size, self._scope, self._phase = size, scope, phase
        self._plans: dict[Any, CallPlan] = {}

    def fresh(self, value: Any, *, is_weight: bool = False) -> Value:
        """Tensors of a node's `meta["val"]` as new storages; what is no tensor stays as it is."""
        if isinstance(value, torch.Tensor):
            return Known(self.spec(value, is_weight), self.emitter.storage())
        if isinstance(value, (list, tuple)):
            return [self.fresh(v) for v in value]
        return value

    def spec(self, tensor: torch.Tensor, is_weight: bool = False) -> Any:
        """A tensor as a signature knows it, symbolic sizes made numbers."""
        return spec_of([self._size(n) for n in tensor.shape], tensor.dtype, is_weight)

    def walk(self, module: GraphModule, inputs: Sequence[Value]) -> Value:
        """Emit every operator of a graph called with these values; gives the graph's output values.

        Raises:
            CaptureError: a node without shapes, or a size that follows from data.
        """
        arguments = iter(inputs)
        values: dict[Node, Value] = {}
        for node in module.graph.nodes:
            if node.op == "placeholder":
                values[node] = next(arguments)
            elif node.op == "get_attr":
                values[node] = self._attribute(module, node)
            elif node.op == "output":
                return _resolve(node.args[0], values)
            elif node.op == "call_function":
                with self.emitter.at(self._numbers.get((self.emitter.node, node), -1)):
                    values[node] = self._call(node, values)
            else:
                raise CaptureError(f"expected a graph of operators, got a {node.op} of {node.target!r}")
        return None

    def _attribute(self, module: GraphModule, node: Node) -> Value:
        """A constant of the graph, or a sub-graph as it is."""
        held = held_by(module, node)
        if isinstance(held, torch.Tensor):
            return self.fresh(node.meta.get("val", held), is_weight=isinstance(held, torch.nn.Parameter))
        return held

    def _call(self, node: Node, values: Mapping[Node, Value]) -> Value:
        target = node.target
        args, kwargs = _resolve(node.args, values), _resolve(node.kwargs, values)
        if target is operator.getitem:
            held = args[0]
            return held[args[1]] if isinstance(held, (list, tuple, dict)) else node.meta.get("val")
        if isinstance(target, torch._ops.HigherOrderOperator):
            return fx_control.call(self, node, target, args, kwargs)
        if not isinstance(target, torch._ops.OpOverload):
            return node.meta.get("val")  # arithmetic on sizes
        plan = self._plans.get(target) or self._plans.setdefault(target, plan_call(target, self.emitter.costs))
        if plan.route == "query":
            return node.meta.get("val")
        if "val" not in node.meta and target._schema.returns:
            raise CaptureError(f"node {node.name!r} ({plan.name}) has no shape")
        bound: dict[str, Any] = dict(zip((a.name for a in target._schema.arguments), args, strict=False)) | kwargs
        out = self._outputs(target, plan.name, node.meta.get("val"), bound)
        reads = _tensors(bound.get(name) for _, name in plan.reads)
        writes = [*_tensors([out]), *_tensors(bound.get(name) for _, name in plan.mutates)]
        attributes = tuple((n, self._plain(bound.get(n, default))) for _, n, default in plan.attributes)
        self.emitter.call(plan.name, reads, writes, attributes, phase=self.phase(node), scope=self.scope(node))
        return out

    def scope(self, node: Node) -> str:
        """The module path of a node."""
        return self._scope(node)

    def phase(self, node: Node) -> int:
        """The phase of a node."""
        return self._phase(node)

    def number(self, value: Any) -> Any:
        """A size as a number, anything else as it is."""
        return self._size(value) if isinstance(value, torch.SymInt) else value

    def _plain(self, value: Any) -> Any:
        if isinstance(value, Known):
            return True
        if isinstance(value, (list, tuple)):
            return tuple(self._plain(v) for v in value)
        return plain(self.number(value))

    def _outputs(self, target: Any, name: str, value: Any, bound: Mapping[str, Any]) -> Value:
        """The call's results, each with the storage its schema says."""
        returns = target._schema.returns
        fresh = self.fresh(value)
        if len(returns) == 1:
            return _alias(fresh, _source(returns[0], target._schema.arguments, bound, name))
        if isinstance(fresh, list):
            sources = (_source(r, target._schema.arguments, bound, name) for r in returns)
            return [_alias(one, source) for one, source in zip(fresh, sources, strict=False)]
        return fresh


def _source(result: Any, arguments: Iterable[Any], bound: Mapping[str, Any], name: str) -> Known | None:
    """The argument whose storage a result has, if any."""
    if name in ALIASES:
        return next(iter(_tensors(bound.values())), None)
    if result.alias_info is None:
        return None
    names = result.alias_info.before_set or _PARTS
    for argument in arguments:
        alias = argument.alias_info
        if alias is not None and (alias.before_set | alias.after_set) & names:
            source = bound.get(argument.name)
            return source if isinstance(source, Known) else None
    return None


def _alias(value: Value, source: Known | None) -> Value:
    if source is None:
        return value
    if isinstance(value, list):
        return [_alias(one, source) for one in value]
    if not isinstance(value, Known):
        return value
    return Known(replace(value.spec, is_weight=source.spec.is_weight), source.storage)


def _tensors(values: Iterable[Any]) -> list[Known]:
    return [v for v in tree_leaves(list(values)) if isinstance(v, Known)]


def _resolve(value: Any, values: Mapping[Node, Value]) -> Value:
    """An argument with its nodes replaced by their values."""
    if isinstance(value, Node):
        return values[value]
    if isinstance(value, (list, tuple)):
        return [_resolve(v, values) for v in value]
    if isinstance(value, dict):
        return {key: _resolve(v, values) for key, v in value.items()}
    return value
