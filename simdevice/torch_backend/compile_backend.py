"""`torch.compile(model, backend="simacc")`: the program runs unchanged and every run adds simulated time.

Dynamo finds it by the entry point `torch_dynamo_backends`. Graphs are lowered by AOTAutograd and run operator by
operator, so results are eager's. On simacc tensors they are recorded as they run. On any other tensors each run adds
the time that the graph would take on the device; inside record(), on the configured one, as operators of the block.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar

import torch
from torch.fx import GraphModule, Interpreter, Node

from simdevice.costs import Costs
from simdevice.devices import Device, get
from simdevice.errors import CaptureError, SpecError
from simdevice.frontends.plans import Graph, GraphCalls, branch_of, breaks, graph_scope, lowering
from simdevice.frontends.storages import StorageIds
from simdevice.records import OpTable, Origin, Rows, TraceBuilder
from simdevice.torch_backend import dynamo, machine, recording, scopes
from simdevice.torch_backend.bootstrap import native
from simdevice.torch_backend.compiled_graphs import CompiledGraph, GraphLog, trace_of
from simdevice.torch_backend.host_storages import HostStorages
from simdevice.torch_backend.placement import touches_simacc
from simdevice.torch_backend.process import scope_number
from simdevice.torch_backend.signatures import intern
from simdevice.units import PS_PER_S

__all__ = ["compiled_graphs", "reset", "simacc", "statistics"]


class _Totals:
    """What all compiled programs of this process did since `reset`."""

    lock = threading.Lock()
    runs = time_ps = 0
    logs: ClassVar[list[tuple[GraphLog, Device | None]]] = []  # per graph, and the machine that it was compiled for
    branches: ClassVar[Counter[str]] = Counter()
    breaks_before: ClassVar[Counter[str]] = Counter()


def simacc(
    module: GraphModule, example: Sequence[Any], *, options: Mapping[str, Any] | None = None, mode: str | None = None
) -> Callable[..., Any]:
    """The Dynamo backend. `options`: "device" (a name, file or Device), "engine", and fields of the machine.

    Raises:
        SpecError: a mode, or options for tensors that are on simacc already: those run on the configured device.
    """
    if mode not in (None, "default"):
        raise SpecError(f"backend 'simacc' has no modes, got mode={mode!r}: give options={{'device': ...}}")
    dynamo.register()
    on_simacc = touches_simacc(module, example)
    if on_simacc and options:
        raise SpecError("simacc tensors run on the configured device: torch.simacc.configure(...), not options")
    observer = _Observer(_chosen(dict(options or {})), on_simacc=on_simacc)
    with _nothing_recorded(on_simacc):
        return lowering(observer)(module, example)


def statistics() -> dict[str, Any]:
    """Graphs compiled and run, why graphs broke (by first line of the reason), and simulated seconds of graphs on
    tensors that are not on simacc, since the last reset."""
    with _Totals.lock:
        found = breaks() - _Totals.breaks_before + _Totals.branches
        return {
            "graphs": len(_Totals.logs),
            "runs": _Totals.runs,
            "graph_breaks": dict(found),
            "time_s": _Totals.time_ps / PS_PER_S,
        }


def compiled_graphs() -> tuple[CompiledGraph, ...]:
    """Every graph since the last reset, as Dynamo made them, on the machine that it was compiled for; without one, on
    the configured."""
    native()
    with _Totals.lock:
        logs = list(_Totals.logs)
    return tuple(log.summary(device or machine.current_device()) for log, device in logs)


def reset() -> None:
    """Count from zero."""
    with _Totals.lock:
        _Totals.runs = _Totals.time_ps = 0
        _Totals.logs.clear()
        _Totals.branches.clear()
        _Totals.breaks_before = breaks()


def _chosen(options: dict[str, Any]) -> Device | None:
    """The machine that the options name; without options, whatever is configured when the graph runs."""
    if not options:
        return None
    chosen = options.pop("device", None) or machine.default_device()
    return get(chosen, engine=options.pop("engine", None), **options)


class _Observer:
    """Runs one compiled graph, forward and backward, and lets its time pass; simacc tensors tell time themselves."""

    def __init__(self, device: Device | None, *, on_simacc: bool) -> None:
        self._device, self._on_simacc = device, on_simacc
        self._storages = StorageIds()  # holds parameters' addresses, not their data
        self._log: GraphLog  # there once the graph is compiled, which may take Dynamo several attempts
        self._static: dict[int, GraphCalls] = {}  # of a graph on simacc whose sizes never change, by its id
        self._times: dict[tuple[int, int], tuple[GraphCalls, Device, int]] = {}  # what is kept keeps its id

    def captured(self, module: GraphModule, example: Sequence[Any]) -> None:
        branch, self._log = branch_of(module), GraphLog.of(module, drains=not self._on_simacc)
        with _Totals.lock:
            _Totals.logs.append((self._log, self._device))
            if branch is not None:
                _Totals.branches[branch] += 1

    def entered(self, args: Sequence[Any], parameters: Sequence[int]) -> None:
        if not self._on_simacc or not self._static:  # of the latter, the first run says all
            self._storages.weights(args[i] for i in parameters if isinstance(args[i], torch.Tensor))

    def run(self, graph: Graph, args: Sequence[Any]) -> Sequence[Any]:
        if self._on_simacc:
            return self._run_on_simacc(graph, args)
        plan = graph.calls(args, [self._is_weight(a) for a in args], Costs())
        results: Sequence[Any] = graph.module.forward(*args)
        self._log.ran(graph, plan, args, results)
        native()  # the time passes on the device's clock, used or not
        took_ps = self._time_ps(plan, self._device or machine.current_device())
        with _Totals.lock:
            _Totals.runs += 1
            _Totals.time_ps += took_ps
        if self._device is not None or not recording.insert(partial(_rows, plan, args, results)):
            machine.add_time(took_ps)
        return results

    def _run_on_simacc(self, graph: Graph, args: Sequence[Any]) -> Sequence[Any]:
        plan = self._static.get(id(graph))
        if plan is None:
            with suppress(CaptureError):  # a size that follows from data: it runs all the same
                plan = graph.calls(args, [self._is_weight(a) for a in args], Costs())
                if graph.is_static:
                    self._static[id(graph)] = plan
        results = _recorded(graph.module, args)
        self._log.ran(graph, plan, args, results)
        with _Totals.lock:
            _Totals.runs += 1
        return results

    def _time_ps(self, plan: GraphCalls, device: Device) -> int:
        found = self._times.get((id(plan), id(device)))
        if found is None:
            found = self._times[id(plan), id(device)] = (plan, device, device.run(trace_of(plan)).makespan_ps)
        return found[2]

    def _is_weight(self, arg: Any) -> bool:
        if not isinstance(arg, torch.Tensor):
            return False
        try:
            return self._storages.known.get(arg.untyped_storage()._cdata, (-1, False))[1]
        except (NotImplementedError, RuntimeError):  # no storage
            return False


def _rows(
    plan: GraphCalls, args: Sequence[Any], results: Sequence[Any], table: OpTable, storages: HostStorages
) -> Rows:
    """The plan's operators, over the storages of this run; without views, as the live device records."""
    place: dict[int, int] = {}
    for inner, value in zip((*plan.inputs, *plan.outputs), (*args, *results), strict=True):
        if inner >= 0 and isinstance(value, torch.Tensor):
            place.setdefault(inner, storages.of(value))
    builder = TraceBuilder(table)
    for call in plan.calls:
        index = intern(table, call.signature)
        if table.costs[index].category == "view":
            continue
        ids = [place[s] if s in place else place.setdefault(s, storages.fresh()) for s in call.storages]
        builder.add(index, ids, phase=call.phase, scope=scope_number(call.scope))
    return builder.finish(Origin("compile")).rows


def _recorded(module: GraphModule, args: Sequence[Any]) -> Sequence[Any]:
    """Run on simacc: node by node where a recording wants scopes, else in one go."""
    if torch.ops.higher_order.flex_attention in {n.target for n in module.graph.nodes}:
        from simdevice.torch_backend import flex  # late: it defines an operator

        flex.fuse(module)
    if not scopes.scopes_wanted():
        results: Sequence[Any] = module.forward(*args)
        return results
    return _Scoped(module).run(*args)  # type: ignore[no-any-return]


class _Scoped(Interpreter):
    """Runs each operator under the path of the module it came from."""

    def run_node(self, n: Node) -> Any:
        if n.op != "call_function":
            return super().run_node(n)
        with scopes.at_path(graph_scope(n)):
            return super().run_node(n)


class _nothing_recorded:
    """While a graph is lowered, this thread records nothing."""

    def __init__(self, on_simacc: bool) -> None:
        self._native = native() if on_simacc else None

    def __enter__(self) -> None:
        if self._native is not None:
            self._native.pause()

    def __exit__(self, *exception: object) -> None:
        if self._native is not None:
            self._native.resume()
