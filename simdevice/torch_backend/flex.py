"""flex_attention in a compiled graph on simacc: one operator, computed by the kernel that Inductor writes for the CPU.

1. `fuse` looks through a lowered graph once and replaces each flex_attention of which only the result is used. 2. The
replacement calls the operator `simacc::flex_attention`, which the device runs on the host, and records, like any other
that has a CPU kernel. 3. That kernel is compiled when it first runs. Without a C++ compiler, call flex_attention
uncompiled: it is made of the CPU's operators then.
"""

from __future__ import annotations

import copy
import operator
import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node
from torch.utils._pytree import tree_map

__all__ = ["fuse"]

_HOP = torch.ops.higher_order.flex_attention
_OPTIONS = 6  # their place among its arguments
_LOOKED = "simacc_flex_attention"  # in the `meta` of a graph that `fuse` has been at

_lock = threading.Lock()
_kernels: list[_Kernel] = []  # an operator's call carries its kernel's number


def fuse(module: GraphModule) -> None:
    """Replace the graph's flex_attention nodes, in place."""
    with _lock:
        if module.meta.get(_LOOKED):
            return
        module.meta[_LOOKED] = True
        nodes = [n for n in module.graph.nodes if n.target is _HOP and _only_result(n)]
        for node in nodes:
            kernel = _Kernel(module, node)
            with module.graph.inserting_before(node):
                fused = module.graph.call_function(
                    torch.ops.simacc.flex_attention.default, (kernel.tensors, len(_kernels))
                )
            _kernels.append(kernel)
            for user in list(node.users):
                user.replace_all_uses_with(fused)
                module.graph.erase_node(user)
            fused.meta.update({k: v for k, v in node.meta.items() if k != "val"})
            module.graph.erase_node(node)
        if nodes:
            module.recompile()


def _only_result(node: Node) -> bool:
    """Whether nobody uses the sums and maxima of scores, which the CPU's kernel does not give, and no size is open."""
    sized = all(a.op == "get_attr" or isinstance(a.meta.get("val"), torch.Tensor) for a in node.all_input_nodes)
    return sized and all(user.args[1] == 0 or not user.users for user in node.users)


class _Kernel:
    """One flex_attention of one graph: its functions of scores and masks are graphs, its tensors come with a call."""

    def __init__(self, module: GraphModule, node: Node) -> None:
        functions = {a for a in node.all_input_nodes if a.op == "get_attr" and _is_function(module, a)}
        self.tensors = [a for a in node.all_input_nodes if a not in functions]
        graph = Graph()
        known = {t: graph.placeholder(t.name) for t in self.tensors}
        known.update({f: graph.get_attr(str(f.target)) for f in functions})
        attention = graph.node_copy(node, known.__getitem__)
        options: Any = attention.args[_OPTIONS]  # where gradients could be asked for, other devices keep sums for them
        attention.update_arg(_OPTIONS, {**options, "OUTPUT_LOGSUMEXP": False})
        graph.output((graph.call_function(operator.getitem, (attention, 0)),))
        alone = GraphModule({str(f.target): copy.deepcopy(getattr(module, str(f.target))) for f in functions}, graph)
        self._alone = _on_cpu(alone)
        self._compiled: dict[Any, Callable[..., Sequence[torch.Tensor]]] = {}

    def run(self, tensors: Sequence[torch.Tensor]) -> torch.Tensor:
        """The result for tensors of the CPU, in the order of `tensors`."""
        key = tuple((t.dtype, t.shape, t.stride()) for t in tensors)
        compiled = self._compiled.get(key)
        if compiled is None:
            from torch._inductor.compile_fx import compile_fx  # late: only who compiles flex_attention waits for it

            written: Any = compile_fx(copy.deepcopy(self._alone), list(tensors))
            compiled = self._compiled[key] = written
        return compiled(*tensors)[0]


def _on_cpu(module: GraphModule) -> GraphModule:
    """The graph and those in it, with everything that they make made on the CPU."""

    def moved(value: Any) -> Any:
        return torch.device("cpu") if isinstance(value, torch.device) else value

    for part in module.modules():
        if isinstance(part, GraphModule):
            for node in part.graph.nodes:
                node.meta = {}
                node.args, node.kwargs = tree_map(moved, (node.args, node.kwargs))
            part.recompile()
    return module


def _is_function(module: GraphModule, attribute: Node) -> bool:
    return isinstance(getattr(module, str(attribute.target)), torch.nn.Module)


_library: Any = torch.library.Library("simacc", "FRAGMENT")  # type: ignore[no-untyped-call]  # torch's own
_library.define("flex_attention(Tensor[] tensors, int kernel) -> Tensor")
_library.impl("flex_attention", lambda tensors, kernel: _kernels[kernel].run(tensors), "CPU")
