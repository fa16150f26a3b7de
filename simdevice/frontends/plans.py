"""Graphs that `torch.compile` hands out, lowered by AOTAutograd: what one run of a graph costs, and how often it runs.

Shared by the "compile" front end and by the backend that users name in `torch.compile`.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Protocol

import torch
from torch.fx import GraphModule, Node

from simdevice import records
from simdevice.costs import Costs
from simdevice.errors import CaptureError
from simdevice.frontends.describe import one_line
from simdevice.frontends.emitter import Emitter, Known, Marks
from simdevice.frontends.fx import FxWalker, module_path, whole
from simdevice.frontends.fx_nodes import Numbers, listed
from simdevice.records import PHASES, Signature

__all__ = [
    "Call",
    "Graph",
    "GraphCalls",
    "Observer",
    "branch_of",
    "breaks",
    "graph_scope",
    "lowering",
    "parameters_of",
]


_ROOT = re.compile(r"^[LG]\[[^\]]*\](\[[^\]]*\])*\.?")

OPTIMIZERS = os.path.join("torch", "optim", "")
"""Where PyTorch's optimizers are."""


@dataclass(frozen=True, slots=True)
class Call:
    """One operator of a graph; `storages` are numbers within it, `node` is its node's place in `Graph.nodes`."""

    signature: Signature
    storages: tuple[int, ...]
    phase: int
    scope: str
    node: int = -1


@dataclass(frozen=True)
class GraphCalls:
    """The operators of one graph for one set of sizes. `inputs` and `outputs` are the storages of the graph's tensors
    in order (-1: no tensor); `marks` say what became of its nodes."""

    calls: tuple[Call, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    notes: tuple[str, ...] = ()
    marks: Marks = field(default_factory=dict)


@dataclass
class Graph:
    """One lowered graph; `phase` is "forward" or "backward". Its calls are found when it first runs, and kept."""

    module: GraphModule
    phase: str
    _calls: dict[Any, GraphCalls] = field(default_factory=dict)

    @cached_property
    def nodes(self) -> list[records.Node]:
        """The graph's nodes, as they were lowered."""
        return self._listed[0]

    @cached_property
    def is_static(self) -> bool:
        """Whether every run has the same sizes."""
        return not any(_symbolic(n.meta.get("val")) for n in self.module.graph.nodes if n.op == "placeholder")

    @cached_property
    def _listed(self) -> tuple[list[records.Node], Numbers]:
        return listed(self.module, graph_scope)

    def calls(self, args: Sequence[Any], weights: Sequence[bool], costs: Costs) -> GraphCalls:
        """What a run on these arguments does; `weights` says which of them are parameters.

        Raises:
            CaptureError: a size that follows from data.
        """
        symbols = _symbols(self.module, args)
        key = (tuple(weights), tuple(sorted((str(s), n) for s, n in symbols.items())))
        calls = self._calls.get(key)
        if calls is None:
            calls = self._calls[key] = self._walked(symbols, weights, costs)
        return calls

    def _walked(self, symbols: dict[Any, int], weights: Sequence[bool], costs: Costs) -> GraphCalls:
        emitter = Emitter(costs)
        walker = FxWalker(
            emitter,
            size=partial(whole, symbols=symbols),
            scope=graph_scope,
            phase=self._phase_of,
            numbers=self._listed[1],
        )
        placeholders = [n for n in self.module.graph.nodes if n.op == "placeholder"]
        inputs = [walker.fresh(n.meta.get("val"), is_weight=w) for n, w in zip(placeholders, weights, strict=True)]
        outputs = walker.walk(self.module, inputs)
        calls = tuple(Call(*call) for call in emitter.calls())
        return GraphCalls(calls, _storages(inputs), _storages(outputs or ()), tuple(emitter.notes), emitter.marks)

    def _phase_of(self, node: Node) -> int:
        """An optimizer's step is told by the file its operators come from: Dynamo sees no hooks of a step."""
        if OPTIMIZERS in str(node.meta.get("stack_trace", "")):
            return PHASES.index("optimizer")
        return PHASES.index(self.phase)


def _storages(values: Sequence[Any]) -> tuple[int, ...]:
    return tuple(v.storage if isinstance(v, Known) else -1 for v in values)


def _symbols(module: GraphModule, args: Sequence[Any]) -> dict[Any, int]:
    """What a graph's symbolic sizes are in this run, read off its arguments."""
    sizes: dict[Any, int] = {}
    placeholders = (n for n in module.graph.nodes if n.op == "placeholder")
    for node, arg in zip(placeholders, args, strict=False):
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt):
            _settle(sizes, value, arg)
        elif isinstance(value, torch.Tensor) and isinstance(arg, torch.Tensor):
            for symbol, n in zip(value.shape, arg.shape, strict=False):
                _settle(sizes, symbol, n)
    return sizes


def _symbolic(value: Any) -> bool:
    sizes = value.shape if isinstance(value, torch.Tensor) else (value,)
    return any(isinstance(size, torch.SymInt) for size in sizes)


def _settle(sizes: dict[Any, int], size: Any, number: int) -> None:
    if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol:
        sizes[size.node.expr] = int(number)


def graph_scope(node: Node) -> str:
    """A node's module path, counted from the module that Dynamo started in: `L['self'].layers.0` is `layers.0`."""
    return _ROOT.sub("", module_path(node)).replace("._modules['", ".").replace("_modules['", "").replace("']", "")


def parameters_of(module: GraphModule, example: Sequence[Any]) -> tuple[int, ...]:
    """Which arguments of Dynamo's graph are parameters: by the source it read them from, else by their class."""
    places = []
    placeholders = [n for n in module.graph.nodes if n.op == "placeholder"]
    for place, (node, value) in enumerate(zip(placeholders, example, strict=False)):
        source = getattr(node, "_dynamo_source", None)
        while source is not None and getattr(source, "member", None) not in ("_parameters", "_buffers"):
            source = getattr(source, "base", None)
        if source is not None:
            if source.member == "_parameters":
                places.append(place)
        elif isinstance(value, torch.nn.Parameter):
            places.append(place)
    return tuple(places)


class Observer(Protocol):
    """Told of graphs: `captured` once per graph, `entered` with each call's arguments, then `run` to run it."""

    def captured(self, module: GraphModule, example: Sequence[Any]) -> None: ...
    def entered(self, args: Sequence[Any], parameters: Sequence[int]) -> None: ...
    def run(self, graph: Graph, args: Sequence[Any]) -> Sequence[Any]: ...


def lowering(observer: Observer) -> Callable[..., Callable[..., Any]]:
    """A Dynamo backend: AOTAutograd lowers each graph to ATen operators, forward and backward; they run as they are.

    Raises (when a graph is compiled):
        CaptureError: AOTAutograd can't lower the graph.
    """
    from torch._dynamo.backends.common import aot_autograd  # Dynamo takes a second to import, so it is not before use
    from torch._dynamo.exc import RestartAnalysis

    def compiler(phase: str) -> Callable[..., Any]:
        def compile_graph(module: GraphModule, example: Sequence[Any]) -> Any:
            graph = Graph(module, phase)

            def call(args: list[Any]) -> Sequence[Any]:
                taken = list(args)
                args.clear()  # AOTAutograd's convention: what isn't needed any more may go
                return observer.run(graph, taken)

            call._boxed_call = True  # type: ignore[attr-defined]
            return call

        return compile_graph

    lower = aot_autograd(
        fw_compiler=compiler("forward"), bw_compiler=compiler("backward"), keep_inference_input_mutations=True
    )

    def backend(module: GraphModule, example: Sequence[Any], **unused: Any) -> Callable[..., Any]:
        parameters = parameters_of(module, example)
        try:
            compiled = lower(module, example)
        except RestartAnalysis:  # a number turned out to be a tensor: Dynamo traces again and comes back
            raise
        except Exception as error:  # lowering runs the program's own operators on fake tensors
            raise CaptureError(f"AOTAutograd can't lower a graph ({one_line(error)})") from error
        observer.captured(module, example)

        def call(*args: Any) -> Any:
            observer.entered(args, parameters)
            return compiled(*args)

        return call

    return backend


def branch_of(module: GraphModule) -> str | None:
    """Why a graph ends where the program branches on data, which Dynamo doesn't count among its breaks."""
    reason = getattr(module, "compile_subgraph_reason", None)
    said = str(getattr(reason, "reason", ""))
    return f"a branch on data ({said.strip()})" if said.startswith("generic_jump") else None


def breaks() -> Counter[str]:
    """Graph breaks so far in this process, by their reasons' first lines. Dynamo counts them while it compiles."""
    from torch._dynamo.utils import counters  # see `lowering`

    reasons: Counter[str] = Counter()
    for reason, count in counters["graph_break"].items():
        reasons[str(reason).strip().splitlines()[0]] += count
    return reasons
