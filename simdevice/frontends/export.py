"""Trace a module through `torch.export`: the whole graph ahead of time, decomposed to Core ATen."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from simdevice.costs import Costs
from simdevice.errors import CaptureError, UnknownNameError
from simdevice.frontends.base import Workload
from simdevice.frontends.describe import (
    cache_path,
    device_of,
    one_line,
    takes_cache,
    title,
    with_path,
    without_cache_path,
)
from simdevice.frontends.emitter import Emitter
from simdevice.frontends.exported_program import Exported, bind, read
from simdevice.frontends.fake import fake_cpu
from simdevice.frontends.fx import FxWalker, module_path, whole
from simdevice.frontends.fx_nodes import listed
from simdevice.frontends.versions import versions
from simdevice.records import NodeMap, Origin, Trace

__all__ = ["exported", "trace", "walk", "walk_exported", "without_cache"]


def trace(
    workload: Workload, costs: Costs, *, fake: str | None = None, scopes: bool = True, flop_counter: bool = False
) -> Trace:
    """Export the workload, or take one that is exported, and walk its graph. Nothing runs on data, and no gradient is
    part of it.

    transformers' key-value cache is no tensor: a prefill is exported with the cache off.

    Raises:
        UnknownNameError: `fake` is neither None nor "cpu".
        CaptureError: a program that `torch.export` can't follow.
    """
    return _captured(workload, costs, fake, scopes, flop_counter)[0]


def walk(
    workload: Workload, costs: Costs | None = None, *, fake: str | None = None, scopes: bool = True
) -> tuple[Trace, NodeMap]:
    """The trace, and which node of the exported graph each row came from.

    Raises:
        UnknownNameError, CaptureError: as `trace`.
    """
    return _captured(workload, costs or Costs(), fake, scopes, False)


def _captured(
    workload: Workload, costs: Costs, fake: str | None, scopes: bool, flop_counter: bool
) -> tuple[Trace, NodeMap]:
    if fake not in (None, "cpu"):
        raise UnknownNameError("kind of fake tensors", str(fake), ["cpu"])
    started = time.perf_counter()
    if isinstance(workload.program, Exported):
        given = read(workload.program)
        device = device_of(None, list(given.state_dict.values()), [n.meta.get("val") for n in given.graph.nodes])
        with _one_line(), _quiet():
            program = given.run_decompositions()
        return _walked(program, workload, costs, device, started, scopes, flop_counter)
    device = device_of(workload.program, workload.args, workload.kwargs)
    workload = without_cache(workload)
    with contextlib.ExitStack() as stack:
        if fake is not None:
            twins = stack.enter_context(fake_cpu(workload.program))
            workload = replace(workload, args=twins.tree(workload.args), kwargs=twins.tree(dict(workload.kwargs)))
        program = exported(workload)
    shown = f"{device} (no data)" if fake else device
    return _walked(program, workload, costs, shown, started, scopes, flop_counter)


def _walked(
    program: ExportedProgram,
    workload: Workload,
    costs: Costs,
    device: str,
    started: float,
    scopes: bool,
    flop_counter: bool,
) -> tuple[Trace, NodeMap]:
    emitter = Emitter(costs)
    sizes = bind(program, workload.program) if isinstance(workload.program, Exported) else {}
    nodes = walk_exported(program, emitter, scopes=scopes, sizes=sizes)
    origin = Origin(
        frontend="export",
        device=device,
        workload=title(workload),
        versions=versions(),
        flop_counter=_count(program, sizes) if flop_counter else None,
        notes=tuple(emitter.notes),
    )
    trace = with_path(emitter.finish(origin), workload.path)
    return replace(trace, origin=replace(trace.origin, capture_s=time.perf_counter() - started)), nodes


def without_cache(workload: Workload) -> Workload:
    """The workload with a transformers model's key-value cache switched off.

    Raises:
        CaptureError: a decode step, which is nothing without its cache.
    """
    if workload.warm_up is not None:
        raise CaptureError("a decode step needs its cache, which is no tensor that a graph could take: use 'dispatch'")
    takes = takes_cache(workload)
    asked = workload.kwargs.get("use_cache", takes and hasattr(workload.program, "config"))
    if not takes or not asked:
        return replace(workload, path=cache_path(workload))
    path = without_cache_path(workload.path)
    return replace(workload, kwargs={**workload.kwargs, "use_cache": False}, path=path)


def exported(workload: Workload, *, decompose: bool = True) -> ExportedProgram:
    """The workload as one graph of ATen operators, or (`decompose`) of Core ATen ones.

    Raises:
        CaptureError: a program that `torch.export` can't follow.
    """
    program = workload.program
    module = program if isinstance(program, torch.nn.Module) else _Called(program)
    with torch.no_grad(), _quiet(), _one_line():
        graph = torch.export.export(module, tuple(workload.args), dict(workload.kwargs), strict=False)
        return graph.run_decompositions() if decompose else graph


@contextlib.contextmanager
def _one_line() -> Iterator[None]:
    """What torch.export raises, as one line."""
    try:
        yield
    except CaptureError:
        raise
    except Exception as error:  # it raises many kinds, none of them its own
        raise CaptureError(f"torch.export can't follow this program ({one_line(error)}): try 'dispatch'") from error


class _Called(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        # copying a tree specification, PyTorch calls what PyTorch deprecated
        warnings.filterwarnings("ignore", message=".*LeafSpec.*", category=FutureWarning)
        # a recurrent layer lists its weights anew at each call
        warnings.filterwarnings("ignore", message="The tensor attributes? self", category=UserWarning)
        yield


def walk_exported(
    program: ExportedProgram, emitter: Emitter, *, scopes: bool = True, sizes: Mapping[Any, int] | None = None
) -> NodeMap:
    """Emit an exported program's operators; gives their nodes. Parameters are weights, tied ones share a storage;
    buffers are not. `sizes` are its open dimensions' by symbol."""
    scope = _module_path if scopes else _nowhere
    calls, numbers = listed(program.graph_module, scope)
    walker = FxWalker(emitter, size=partial(whole, symbols=sizes), scope=scope, numbers=numbers)
    nodes = {n.name: n for n in program.graph.nodes if n.op == "placeholder"}
    held: dict[int, int] = {}
    inputs = []
    for spec in program.graph_signature.input_specs:
        node = nodes[spec.arg.name]
        known = walker.fresh(node.meta.get("val"), is_weight=spec.kind is InputKind.PARAMETER)
        owner = _state(program, spec.target)
        if owner is not None:
            storage = held.setdefault(owner.untyped_storage()._cdata, known.storage)
            known = replace(known, storage=storage)
        inputs.append(known)
    walker.walk(program.graph_module, inputs)
    return emitter.nodes(calls)


def _state(program: ExportedProgram, target: str | None) -> torch.Tensor | None:
    """The tensor behind a lifted input."""
    held: Mapping[str, Any] = program.state_dict if target in program.state_dict else program.constants
    tensor = held.get(target) if target is not None else None
    return tensor if isinstance(tensor, torch.Tensor) else None


def _module_path(node: torch.fx.Node) -> str:
    return module_path(node).removeprefix("function.").removeprefix("function")


def _nowhere(node: torch.fx.Node) -> str:
    return ""


def _count(program: ExportedProgram, sizes: Mapping[Any, int]) -> int:
    """FlopCounterMode's total of the graph, run on the shapes it was traced with, open ones as they were bound."""
    values = [n.meta.get("val") for n in program.graph.nodes if n.op == "placeholder"]
    fake = next((v.fake_mode for v in tree_leaves(values) if hasattr(v, "fake_mode")), contextlib.nullcontext())
    if sizes:
        fake = FakeTensorMode(allow_non_fake_inputs=True)
        values = [_bound(value, sizes, fake) for value in values]
    with fake, FlopCounterMode(display=False) as counter, torch.no_grad():
        torch.fx.Interpreter(program.graph_module).run(*values, enable_io_processing=False)
    return int(counter.get_total_flops())


def _bound(value: Any, sizes: Mapping[Any, int], fake: FakeTensorMode) -> Any:
    """An input with its open sizes made numbers."""
    if isinstance(value, torch.SymInt):
        return whole(value, sizes)
    if not isinstance(value, torch.Tensor):
        return value
    with fake:
        return torch.empty([whole(n, sizes) for n in value.shape], dtype=value.dtype, device=value.device)
