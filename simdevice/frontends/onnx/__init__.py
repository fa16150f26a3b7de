"""ONNX: walk any file, or export a PyTorch module without its weights and walk that."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import GraphProto, ModelProto, TypeProto, shape_inference

from simdevice.costs import Costs
from simdevice.errors import CaptureError, UnknownNameError
from simdevice.frontends.base import Workload
from simdevice.frontends.describe import device_of, title, with_path
from simdevice.frontends.emitter import Emitter
from simdevice.frontends.onnx import profiled
from simdevice.frontends.onnx.dims import bind, sized, sizes_of
from simdevice.frontends.onnx.files import IN_MEMORY, copied, drop_contents, graphs, load
from simdevice.frontends.onnx.marks import read_marks
from simdevice.frontends.onnx.nodes import listed, protos_of
from simdevice.frontends.onnx.operators.blocked import block_of
from simdevice.frontends.onnx.sequences import contents, held_by
from simdevice.frontends.onnx.shapes import Schemas
from simdevice.frontends.onnx.values import SMALL, dtype_name
from simdevice.frontends.onnx.walker import GraphWalker
from simdevice.frontends.onnx_file import OnnxFile
from simdevice.frontends.versions import versions
from simdevice.records import NodeMap, Origin, Trace

__all__ = ["trace", "walk"]

SHAPES = ("infer", "run")


def trace(
    workload: Workload, costs: Costs, *, fake: str | None = None, scopes: bool = True, flop_counter: bool = False
) -> Trace:
    """Walk an OnnxFile, or a module exported for the purpose. Nothing is counted by FlopCounterMode: no PyTorch runs.

    Raises:
        FileFormatError: a file that is damaged, or no ONNX file, or newer than the installed onnx.
        CaptureError: open dimensions, or a module that can't be exported.
    """
    started = time.perf_counter()
    if isinstance(workload.program, OnnxFile):
        file = workload.program
        return _of_model(_read(file), file.path, file, Emitter(costs), title(workload), started, scopes=scopes)[0]
    from simdevice.frontends.onnx.export import export_model  # a file is walked without PyTorch

    device = device_of(workload.program, workload.args, workload.kwargs)
    exported = export_model(workload, fake=fake)
    workload = exported.workload
    emitter = Emitter(costs)
    _walk(exported.model, emitter, path=None, weights=exported.weights, constants=exported.constants, scopes=scopes)
    origin = Origin("onnx", f"{device} (no data)" if fake else device, title(workload), workload.path, versions())
    return _finished(emitter, origin, started)


def walk(
    model: OnnxFile | ModelProto | str | os.PathLike[str],
    costs: Costs | None = None,
    *,
    dims: Mapping[str, Any] | None = None,
    inputs: Mapping[str, Any] | None = None,
    shapes: str = "infer",
    scopes: bool = True,
) -> tuple[Trace, NodeMap]:
    """The trace of a model (a file or in memory; it stays as it is), and which of its nodes each row came from.

    `dims`, `inputs` and `shapes` are as for an OnnxFile, which brings its own. Nodes are those of the model as it is
    walked: its own functions inlined, nodes in an order that computes, and a node without a name called after its
    operator and place.

    Raises:
        FileFormatError: a file that is damaged, or no ONNX file, or newer than the installed onnx.
        CaptureError: open dimensions, or a model that ONNX Runtime can't run where `shapes` is "run".
    """
    started = time.perf_counter()
    held = model if isinstance(model, ModelProto) else None
    if isinstance(model, OnnxFile):
        file = model
    else:
        path = IN_MEMORY if isinstance(model, ModelProto) else os.fspath(model)
        file = OnnxFile(path, dims or {}, inputs or {}, shapes)
    place = None if held is not None else file.path
    return _of_model(_read(file, held), place, file, Emitter(costs or Costs()), "", started, scopes=scopes)


def _read(file: OnnxFile, model: ModelProto | None = None) -> ModelProto:
    if file.shapes not in SHAPES:
        raise UnknownNameError("way to get shapes", file.shapes, SHAPES)
    to_run = file.shapes == "run"
    return load(file.path, to_run=to_run) if model is None else copied(model, to_run=to_run)


def _of_model(
    model: ModelProto, path: str | None, file: OnnxFile, emitter: Emitter, said: str, started: float, *, scopes: bool
) -> tuple[Trace, NodeMap]:
    weights, constants = read_marks(model)
    nodes = _walk(model, emitter, path=path, file=file, weights=weights, constants=constants, scopes=scopes)
    workload = said or (Path(path).stem if path is not None else model.graph.name)
    way = "shapes of one run" if file.shapes == "run" else ""
    return _finished(emitter, Origin("onnx", "onnx", workload, way, versions()), started), nodes


def _finished(emitter: Emitter, origin: Origin, started: float) -> Trace:
    trace = with_path(emitter.finish(replace(origin, notes=tuple(emitter.notes))), origin.path)
    return replace(trace, origin=replace(trace.origin, capture_s=time.perf_counter() - started))


def _walk(
    model: ModelProto,
    emitter: Emitter,
    *,
    path: str | None,
    file: OnnxFile | None = None,
    weights: frozenset[str] | None,
    constants: frozenset[str],
    scopes: bool,
) -> NodeMap:
    """`weights` are inputs that are parameters (None: a foreign file), `constants` inputs that are stored too."""
    graph = model.graph
    opsets = {("" if o.domain == "ai.onnx" else o.domain): o.version for o in model.opset_import}
    protos = {i.name: i for i in graph.input}
    for name in file.inputs if file else ():
        if name not in protos:
            raise UnknownNameError("input", name, list(protos))
    held_inputs = {name: contents(protos[name].type, held) for name, held in (file.inputs if file else {}).items()}
    shown = path or "the exported model"
    sizes = {n: a.shape for n, a in held_inputs.items() if isinstance(a, np.ndarray)}
    bound = bind(graph, file.dims if file else {}, sizes, shown)
    profile = None
    if file is not None and file.shapes == "run":
        if weights is not None:
            raise CaptureError(f"{shown} holds no weights, so it can't be run: use shapes='infer'")
        missing = {n: s for n, s in bound.items() if n not in held_inputs}
        seeded = profiled.seeded_inputs(_only(graph, missing), missing)
        profile = profiled.run(model, {**seeded, **held_inputs}, path)
        drop_contents(model)
    walker = GraphWalker(
        emitter,
        Schemas(opsets, block=block_of(graph)),
        constants_are_weights=weights is None,
        profile=profile,
        scopes=scopes,
        declared=cache(partial(_declared, model, sizes_of(graph, bound))),
        used=_used(model),
        numbers={proto.name: number for number, proto in enumerate(protos_of(graph))},
    )
    inputs = []
    for proto in graph.input:
        if not proto.type.HasField("tensor_type"):
            inputs.append(held_by(proto, held_inputs, emitter.storage))
            continue
        value = walker.fresh(bound[proto.name], dtype_name(proto.type.tensor_type.elem_type), proto=proto.type)
        value.is_weight = weights is not None and proto.name in weights
        value.constant = value.is_weight or proto.name in constants
        value.data = _small(held_inputs.get(proto.name))
        inputs.append(value)
    walker.walk(graph, {}, inputs)
    return emitter.nodes(listed(graph))


def _small(array: NDArray[Any] | None) -> NDArray[Any] | None:
    return array if array is not None and array.size <= SMALL else None


def _only(graph: GraphProto, names: Mapping[str, Any]) -> GraphProto:
    """A graph with these inputs only: what is left to be made up."""
    kept = GraphProto()
    kept.input.extend(i for i in graph.input if i.name in names)
    return kept


def _used(model: ModelProto) -> frozenset[str]:
    """Every name that some node reads or some graph returns."""
    names: set[str] = set()
    for _, graph in graphs(model.graph):
        names.update(o.name for o in graph.output)
        for node in graph.node:
            names.update(node.input)
    return frozenset(names)


def _declared(model: ModelProto, sizes: Mapping[str, int]) -> dict[str, TypeProto]:
    """What the file and ONNX's inference over the whole graph say of values, for dimensions of these sizes. Asked for
    only where a node doesn't tell: on a damaged file that inference may never end, or end the process."""
    try:
        inferred = shape_inference.infer_shapes(model, data_prop=True)
    except Exception:  # an operator it fails on; the walk goes on without it
        inferred = model
    return {v.name: sized(v.type, sizes) for v in (*inferred.graph.value_info, *inferred.graph.output)}
