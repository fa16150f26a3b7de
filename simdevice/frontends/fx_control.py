"""Higher-order operators of an FX graph: control flow and wrappers whose operators are in sub-graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import GraphModule, Node

from simdevice.frontends.emitter import Branch, Known

if TYPE_CHECKING:
    from simdevice.frontends.fx import FxWalker

__all__ = ["call"]

Args = list[Any]


def call(walker: FxWalker, node: Node, target: Any, args: Args, kwargs: dict[str, Any]) -> Any:
    """Walk a higher-order call; gives its output values.

    1. A conditional takes the branch of most FLOPs (then bytes); the trace's notes say so.
    2. A loop over a condition is walked once, noted; a scan or map as often as it has slices.
    3. A wrapper around one sub-graph is that sub-graph.
    4. Anything else is one row under its own name, which has no cost rule unless someone adds one.
    """
    name = str(target)
    handler = _HANDLERS.get(name)
    if handler is not None:
        return handler(walker, node, args)
    graphs = [i for i, a in enumerate(args) if isinstance(a, GraphModule)]
    if len(graphs) == 1 and name in _WRAPPERS:
        return walker.walk(args[graphs[0]], [a for a in args[graphs[0] + 1 :] if not isinstance(a, str)])
    return _one_row(walker, node, name, args, kwargs)


def _one_row(walker: FxWalker, node: Node, name: str, args: Args, kwargs: dict[str, Any]) -> Any:
    if name.startswith("auto_functionalized") and isinstance(args[0], torch._ops.OpOverload):
        name = args[0]._schema.name.replace("::", ".")
    else:
        name = f"higher_order.{name}"
    out = walker.fresh(node.meta.get("val"))
    reads, writes = _tensors((args, kwargs)), _tensors(out)
    walker.emitter.call(name, reads, writes, phase=walker.phase(node), scope=walker.scope(node))
    return out


def _cond(walker: FxWalker, node: Node, args: Args) -> Any:
    _, *branches, operands = args
    return _costliest(walker, node, [(b, operands) for b in branches])


def _costliest(walker: FxWalker, node: Node, branches: list[tuple[GraphModule, Args]]) -> Any:
    walked: list[tuple[Branch, Any]] = []
    for graph, operands in branches:
        with walker.emitter.aside() as branch:
            out = walker.walk(graph, operands)
        walked.append((branch, out))
    branch, out = max(walked, key=lambda f: walker.emitter.weigh(f[0]))
    walker.emitter.extend(branch)
    walker.emitter.note(f"conditional {node.name!r}: the costliest of {len(walked)} branches is shown")
    return out


def _while(walker: FxWalker, node: Node, args: Args) -> Any:
    condition, body, carried, additional = args
    walker.walk(condition, [*carried, *additional])
    walker.emitter.note(f"loop {node.name!r}: how often it runs follows from data; one turn is shown")
    return walker.walk(body, [*carried, *additional])


def _scan(walker: FxWalker, node: Node, args: Args) -> Any:
    """combine_fn, init, xs, additional: gives the carried values, then every turn's outputs stacked."""
    function, carried, sliced, additional = args
    stacked: list[Any] = []
    for _ in range(_turns(sliced)):
        out = walker.walk(function, [*carried, *(_slice(x) for x in sliced), *additional])
        carried, stacked = out[: len(carried)], out[len(carried) :]
    whole = walker.fresh(node.meta.get("val"))
    return [*carried, *whole[len(whole) - len(stacked) :]]


def _map(walker: FxWalker, node: Node, args: Args) -> Any:
    """f, xs, additional: every turn's outputs stacked."""
    function, sliced, additional = args
    for _ in range(_turns(sliced)):
        walker.walk(function, [*(_slice(x) for x in sliced), *additional])
    return walker.fresh(node.meta.get("val"))


def _turns(sliced: Args) -> int:
    return next((int(x.spec.shape[0]) for x in sliced if isinstance(x, Known)), 0)


def _slice(tensor: Any) -> Any:
    """One turn's part of a tensor along its first dimension."""
    if not isinstance(tensor, Known):
        return tensor
    spec = type(tensor.spec)(tensor.spec.shape[1:], tensor.spec.dtype, tensor.spec.is_weight)
    return Known(spec, tensor.storage)


def _tensors(tree: Any) -> list[Known]:
    leaves = torch.utils._pytree.tree_leaves(tree)
    return [v for v in leaves if isinstance(v, Known)]


_HANDLERS: dict[str, Callable[[Any, Node, Args], Any]] = {
    "cond": _cond,
    "map_impl": _map,
    "scan": _scan,
    "while_loop": _while,
}

_WRAPPERS = (
    *("hints_wrapper", "invoke_subgraph", "strict_mode", "tag_activation_checkpoint", "wrap"),
    *("wrap_activation_checkpoint", "wrap_with_autocast", "wrap_with_set_grad_enabled"),
)
