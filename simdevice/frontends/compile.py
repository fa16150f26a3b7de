"""Trace a program as `torch.compile` sees it: Dynamo's graphs lowered by AOTAutograd, and what runs between them."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch._C._dynamo.eval_frame import _FrameAction, _FrameExecStrategy, set_code_exec_strategy
from torch.fx import GraphModule
from torch.utils.flop_counter import FlopCounterMode

from simdevice.costs import Costs
from simdevice.errors import CaptureError, UnknownNameError
from simdevice.frontends.base import Workload
from simdevice.frontends.describe import cache_path, device_of, one_line, title, with_path
from simdevice.frontends.dispatch import DispatchRecorder
from simdevice.frontends.emitter import Marks, settled, stronger
from simdevice.frontends.export import without_cache
from simdevice.frontends.fake import fake_cpu
from simdevice.frontends.plans import Graph, branch_of, breaks, lowering
from simdevice.frontends.versions import versions
from simdevice.records import Node, NodeMap, Origin, Trace

__all__ = ["CompileRecorder", "trace", "walk"]

_INNER = 1 << 40
"""Storages inside a graph count from here until `finish` renumbers all."""


class CompileRecorder(DispatchRecorder):  # type: ignore[no-untyped-call]  # torch's __init_subclass__
    """Records a compiled program: a graph's rows come from its plan when it runs, those between graphs as dispatched.

    Dynamo ignores it (an "infrastructure" mode), so compiled code runs under it as without it.
    """

    def __init__(self, costs: Costs, root: torch.nn.Module | None = None, *, flop_counter: bool = False) -> None:
        super().__init__(costs, root, scopes=False)  # module hooks would become part of the graphs
        self.graphs = 0
        self.branches: Counter[str] = Counter()
        self.flops: int | None = 0 if flop_counter else None
        self.notes: list[str] = []
        self.nodes: list[Node] = []
        self.marks: Marks = {}
        self._places: dict[int, tuple[Graph, int]] = {}  # a graph, kept so that its id stays its own; its first node
        self._owners: list[tuple[int, list[int]]] = []
        self._running = False
        self._inner = _INNER

    @classmethod
    def is_infra_mode(cls) -> bool:
        """Dynamo compiles under such modes."""
        return True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if self._running or torch._guards.TracingContext.try_get() is not None:
            return func(*args, **(kwargs or {}))
        with self._counting():
            return super().__torch_dispatch__(func, types, args, kwargs)

    @contextlib.contextmanager
    def _counting(self) -> Iterator[None]:
        """FlopCounterMode around each thing that runs, where asked for: around them all, nothing would be compiled."""
        if self.flops is None:
            yield
            return
        with FlopCounterMode(display=False) as counter:
            yield
        self.flops += counter.get_total_flops()

    def captured(self, module: GraphModule, example: Sequence[Any]) -> None:
        """A graph was compiled."""
        self.graphs += 1
        branch = branch_of(module)
        if branch is not None:
            self.branches[branch] += 1

    def entered(self, args: Sequence[Any], parameters: Sequence[int]) -> None:
        """A graph is called: parameters are weights, whoever owns them."""
        self._storages.weights(args[i] for i in parameters if isinstance(args[i], torch.Tensor))

    def run(self, graph: Graph, args: Sequence[Any]) -> Sequence[Any]:
        """Run a graph and add its plan's rows, over the storages that its arguments and results have."""
        seen = [self._storages.of(a) if isinstance(a, torch.Tensor) else (-1, False) for a in args]
        plan = graph.calls(args, [is_weight for _, is_weight in seen], self._costs)
        self._running = True
        try:
            with self._counting():
                results: Sequence[Any] = graph.module(*args)
        finally:
            self._running = False
        place = {inner: serial for inner, (serial, _) in zip(plan.inputs, seen, strict=True) if inner >= 0}
        for inner, result in zip(plan.outputs, results, strict=True):
            if inner >= 0 and isinstance(result, torch.Tensor):
                place.setdefault(inner, self._storages.of(result)[0])
        around = self._where()["phase"]  # a graph inside an optimizer's step
        first = self._place(graph)
        stronger(self.marks, plan.marks, first)
        self._owners.append((len(self._builder), [first + call.node for call in plan.calls]))
        for call in plan.calls:
            ids = [self._number(place, storage) for storage in call.storages]
            self._builder.add(call.signature, ids, phase=call.phase or around, scope=self._builder.scope(call.scope))
        self.notes += [n for n in plan.notes if n not in self.notes]
        return results

    def _place(self, graph: Graph) -> int:
        """Where a graph's nodes stand among all; the first run puts them there."""
        known = self._places.get(id(graph))
        first = len(self.nodes) if known is None else known[1]
        if known is None:
            self._places[id(graph)] = graph, first
            inside = f"{graph.phase} graph {len(self._places) - 1}/"
            self.nodes += [
                replace(n, path=f"{inside}{n.path}", parent=n.parent + first if n.parent >= 0 else -1)
                for n in graph.nodes
            ]
        return first

    def map(self) -> NodeMap:
        """The nodes of all graphs that ran, and each row's; one that was dispatched between them has none."""
        owner = np.full(len(self._builder), -1, np.int32)
        for row, numbers in self._owners:
            owner[row : row + len(numbers)] = numbers
        return NodeMap(settled(self.nodes, self.marks), owner)

    def _optimizer_begins(self, *unused: Any) -> None:
        if not torch.compiler.is_compiling():  # else a hook would be part of the graph, or break it
            super()._optimizer_begins(*unused)

    def _optimizer_ends(self, *unused: Any) -> None:
        if not torch.compiler.is_compiling():
            super()._optimizer_ends(*unused)

    def _number(self, place: dict[int, int], storage: int) -> int:
        serial = place.get(storage)
        if serial is None:
            serial = place[storage] = self._inner
            self._inner += 1
        return serial

    def finish(self, origin: Origin) -> Trace:
        """The trace, its storages numbered in order of first use."""
        trace = super().finish(origin)
        tensors = trace.rows.tensors
        _, first, inverse = np.unique(tensors, return_index=True, return_inverse=True)
        rank = np.empty(len(first), np.int64)
        rank[np.argsort(first)] = np.arange(len(first))
        numbered = np.where(tensors < 0, tensors, rank[inverse])
        return replace(trace, rows=replace(trace.rows, tensors=numbered))


set_code_exec_strategy(
    CompileRecorder.__torch_dispatch__.__code__, _FrameExecStrategy(_FrameAction.SKIP, _FrameAction.SKIP)
)


def trace(
    workload: Workload, costs: Costs, *, fake: str | None = None, scopes: bool = True, flop_counter: bool = False
) -> Trace:
    """Compile the workload, run it once, and give its operators. A module runs without gradients, a function as it is.

    How many graphs there were and why each break happened stands in the trace's notes. `scopes` are the graphs' own.

    Raises:
        UnknownNameError: `fake` is neither None nor "cpu".
        CaptureError: a program that can't be compiled, or that meta or fake tensors can't run.
    """
    return _captured(workload, costs, fake, scopes, flop_counter)[0]


def walk(
    workload: Workload, costs: Costs | None = None, *, fake: str | None = None, scopes: bool = True
) -> tuple[Trace, NodeMap]:
    """The trace, and which node of which graph each row came from; a graph's path is its phase and number. Rows of
    operators between the graphs are of no node.

    Raises:
        UnknownNameError, CaptureError: as `trace`.
    """
    return _captured(workload, costs or Costs(), fake, scopes, False)


def _captured(
    workload: Workload, costs: Costs, fake: str | None, scopes: bool, flop_counter: bool
) -> tuple[Trace, NodeMap]:
    if fake not in (None, "cpu"):
        raise UnknownNameError("kind of fake tensors", str(fake), ["cpu"])
    root = workload.program if isinstance(workload.program, torch.nn.Module) else None
    device = device_of(root, workload.args, workload.kwargs)
    if device == "meta" and fake is None and workload.warm_up is None:
        workload = without_cache(workload)  # Dynamo can't join meta tensors with the empty ones a cache starts from
    started = time.perf_counter()
    with contextlib.ExitStack() as stack:
        if fake is not None:
            twins = stack.enter_context(fake_cpu(workload.program))
            workload = replace(workload, args=twins.tree(workload.args), kwargs=twins.tree(dict(workload.kwargs)))
        if root is not None:
            stack.enter_context(torch.no_grad())
        args, kwargs = workload.args, workload.kwargs
        if workload.warm_up is not None:
            args, kwargs = workload.warm_up(workload)
        recorder = CompileRecorder(costs, root, flop_counter=flop_counter)
        with _fresh_compiler(), _one_line():
            before = breaks()
            compiled = torch.compile(workload.program, backend=lowering(recorder))
            with recorder:
                compiled(*args, **kwargs)
            reasons = breaks() - before + recorder.branches
    origin = Origin(
        frontend="compile",
        device=f"{device} (no data)" if fake else device,
        workload=title(workload),
        versions=versions(),
        flop_counter=recorder.flops,
        notes=(_summary(recorder.graphs, reasons), *recorder.notes),
    )
    trace = with_path(recorder.finish(origin), cache_path(workload))
    if not scopes:
        rows = replace(trace.rows, scope=np.zeros_like(trace.rows.scope))
        trace = replace(trace, rows=rows, scopes=("",))
    return replace(trace, origin=replace(trace.origin, capture_s=time.perf_counter() - started)), recorder.map()


def _summary(graphs: int, counts: Any) -> str:
    total = sum(counts.values())
    said = f"{graphs} graph{'s' * (graphs != 1)}, {total or 'no'} graph break{'s' * (total != 1)}"
    reasons = "; ".join(f"{reason} ({count})" if count > 1 else reason for reason, count in sorted(counts.items()))
    return f"{said}: {reasons}" if reasons else said


@contextlib.contextmanager
def _fresh_compiler() -> Iterator[None]:
    """What was compiled before, for other inputs, must not decide what is compiled now: all that Dynamo compiled in
    this process is forgotten, and compiled again when it is next called."""
    torch._dynamo.reset()
    try:
        with warnings.catch_warnings():
            # Dynamo looks at more than the program does (a gradient that isn't kept, PyTorch's own deprecations);
            # where warnings are errors, it would give up on the program.
            warnings.simplefilter("ignore")
            yield
    finally:
        torch._dynamo.reset()


@contextlib.contextmanager
def _one_line() -> Iterator[None]:
    """What the compiler and tensors without data raise, as one line."""
    try:
        yield
    except CaptureError:
        raise
    except (torch._dynamo.exc.TorchDynamoException, NotImplementedError, RuntimeError) as error:
        cause = error.__cause__ if isinstance(error.__cause__, CaptureError) else error
        raise CaptureError(f"torch.compile can't follow this program ({one_line(cause)}): try 'dispatch'") from error
