"""What `torch.compile(backend="simacc")` made of a program, graph by graph: operators, time, what its breaks cost."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.fx import GraphModule

from simdevice.costs import Costs
from simdevice.costs.device import SYNCHRONIZE
from simdevice.devices import Device
from simdevice.frontends.plans import Graph, GraphCalls, branch_of
from simdevice.records import OpTable, Origin, Signature, TensorSpec, Trace, TraceBuilder
from simdevice.units import PS_PER_S, format_seconds

__all__ = ["CompiledGraph", "GraphLog", "joined", "trace_of"]

_CONDITION = TensorSpec((), "bool")
_READ = Signature("simacc.copy_to_host", (_CONDITION,), ())
_WAIT = Signature(SYNCHRONIZE, (), ())


@dataclass(frozen=True, slots=True)
class CompiledGraph:
    """One graph of Dynamo's, forward and backward together.

    `name` is Dynamo's own (frame/recompilation), `operators` how many one run has (of each phase), `time_s` what all
    `runs` took. A graph that ends in a break says why and where; `break_time_s` is what the breaks after its runs cost:
    the time of both graphs as they ran, less that of one graph without a break. Where the program branches on data, the
    host reads the condition over the link, and what comes later waits for it; on tensors of another device, each graph
    also drains the machine. `is_lower_bound`: some run had sizes that follow from data, and is not in `time_s`.
    """

    name: str
    operators: dict[str, int]
    runs: int
    time_s: float
    is_lower_bound: bool = False
    break_reason: str = ""
    break_at: str = ""
    break_time_s: float = 0.0

    def __str__(self) -> str:
        counted = " + ".join(f"{count:,} {phase}" for phase, count in self.operators.items()) or "no"
        time = ">= " * self.is_lower_bound + format_seconds(self.time_s)
        text = f"graph {self.name}: {counted} operators, {self.runs:,} runs, {time}"
        if not self.break_reason:
            return text
        return (
            f"{text}; breaks at {self.break_at}: {self.break_reason}; breaks cost {format_seconds(self.break_time_s)}"
        )


def trace_of(*parts: GraphCalls, links: Sequence[dict[int, int]] = (), read_between: bool = False) -> Trace:
    """The operators of graphs in a row. `links[i]` says which storages of part i + 1 are which of part i;
    `read_between` lets the host read a condition after each part but the last."""
    builder = TraceBuilder(OpTable(Costs()))
    numbers: dict[tuple[int, int], int] = {}
    for part, calls in enumerate(parts):
        if part:
            for inner, outer in links[part - 1].items() if links else ():
                numbers[part, inner] = numbers.setdefault((part - 1, outer), len(numbers))
            if read_between:
                builder.add(_READ, [-1])
                builder.add(_WAIT, [])
        for call in calls.calls:
            ids = [-1 if s < 0 else numbers.setdefault((part, s), len(numbers)) for s in call.storages]
            builder.add(call.signature, ids, phase=call.phase, scope=builder.scope(call.scope))
    return builder.finish(Origin("compile", notes=parts[0].notes if parts else ()))


def joined(results: dict[int, int], calls: GraphCalls, args: Sequence[Any]) -> dict[int, int]:
    """Which storages of a graph's arguments are which of the graph before it, whose results' storages these are."""
    return {
        inner: results[storage]
        for inner, arg in zip(calls.inputs, args, strict=False)
        if inner >= 0 and (storage := _storage(arg)) in results
    }


def _storage(value: Any) -> int:
    try:
        return int(value.untyped_storage()._cdata) if isinstance(value, torch.Tensor) else -1
    except (NotImplementedError, RuntimeError):  # no storage
        return -1


_Link = tuple[tuple[int, int], ...]


@dataclass
class GraphLog:
    """What one graph did. Written by every run of it, on any thread, under `lock`; times are found when asked for."""

    name: str
    break_reason: str = ""
    break_at: str = ""
    reads_condition: bool = False
    drains: bool = False  # its tensors are another device's: each run is a run of its own
    runs: Counter[str] = field(default_factory=Counter)  # by phase
    calls: dict[int, tuple[GraphCalls, str]] = field(default_factory=dict)  # by id: kept, so that it stays one
    called: Counter[int] = field(default_factory=Counter)
    continued: Counter[tuple[int, int, _Link]] = field(default_factory=Counter)  # what ran after a break, with links
    after: dict[int, GraphCalls] = field(default_factory=dict)
    unknown_runs: int = 0

    lock = threading.Lock()
    _thread = threading.local()

    @classmethod
    def of(cls, module: GraphModule, *, drains: bool) -> GraphLog:
        """The log of a graph that Dynamo has just handed over."""
        name = str(module.meta.get("dynamo_compile_id", "?"))
        reason = getattr(module, "compile_subgraph_reason", None)
        branch = branch_of(module)
        if reason is None or not (branch or reason.graph_break):
            return cls(name, drains=drains)
        frames = reason.user_stack
        at = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "an unknown line"
        said = "a branch on data" if branch else str(reason.reason).strip().splitlines()[0]
        return cls(name, said, at, reads_condition=branch is not None, drains=drains)

    def ran(self, graph: Graph, calls: GraphCalls | None, args: Sequence[Any], results: Sequence[Any]) -> None:
        """Count a run of one of its lowered graphs, forward or backward; `calls` None: they follow from data."""
        with self.lock:
            self.runs[graph.phase] += 1
            if calls is None:
                self.unknown_runs += 1
                self._thread.broke = None
                return
            self.calls[id(calls)] = calls, graph.phase
            self.called[id(calls)] += 1
        if graph.phase != "forward":
            return
        before: tuple[GraphLog, GraphCalls, dict[int, int]] | None = getattr(self._thread, "broke", None)
        if before is not None:
            log, earlier, storages = before
            link = tuple(sorted(joined(storages, calls, args).items()))
            with self.lock:
                log.after[id(calls)] = calls
                log.continued[id(earlier), id(calls), link] += 1
        self._thread.broke = None
        if self.break_reason:
            named = {_storage(value): inner for inner, value in zip(calls.outputs, results, strict=False) if inner >= 0}
            self._thread.broke = self, calls, named

    def summary(self, device: Device) -> CompiledGraph:
        """What it took on a machine."""
        with self.lock:
            calls, called, continued = dict(self.calls), dict(self.called), dict(self.continued)
        took = {number: device.run(trace_of(graph)).makespan_ps for number, (graph, _) in calls.items()}
        operators: dict[str, int] = {}
        for graph, phase in calls.values():  # of several sizes, the last
            operators[phase] = len(graph.calls)
        cost_ps = sum(
            times * self._break_ps(device, calls[first][0], self.after[second], dict(link))
            for (first, second, link), times in continued.items()
        )
        return CompiledGraph(
            self.name,
            operators,
            self.runs["forward"],
            sum(took[number] * times for number, times in called.items()) / PS_PER_S,
            is_lower_bound=self.unknown_runs > 0,
            break_reason=self.break_reason,
            break_at=self.break_at,
            break_time_s=cost_ps / PS_PER_S,
        )

    def _break_ps(self, device: Device, first: GraphCalls, second: GraphCalls, link: dict[int, int]) -> int:
        whole = device.run(trace_of(first, second, links=[link])).makespan_ps
        if not self.drains:
            broken = trace_of(first, second, links=[link], read_between=self.reads_condition)
            return int(device.run(broken).makespan_ps) - whole
        apart = sum(int(device.run(trace_of(part)).makespan_ps) for part in (first, second))
        read = trace_of(GraphCalls((), (), ()), GraphCalls((), (), ()), read_between=True)
        return apart + (int(device.run(read).makespan_ps) if self.reads_condition else 0) - whole
