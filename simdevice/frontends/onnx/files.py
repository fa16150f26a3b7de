"""Read an ONNX file without its weights: what a walk needs of it, and one clear line for what is wrong with it."""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterator
from contextlib import suppress
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, helper, inliner

from simdevice.errors import FileFormatError
from simdevice.frontends.onnx.nodes import bodies, reads
from simdevice.frontends.onnx.stored import check, fetch
from simdevice.frontends.onnx.wire import LARGE, skimmed

__all__ = ["IN_MEMORY", "copied", "drop_contents", "graphs", "load", "prepared"]

IN_MEMORY = "the model"
"""What messages call a model that is in no file."""

LARGEST = 2**31 - 1
"""Bytes of one protobuf message."""


def load(path: str | os.PathLike[str], *, to_run: bool = False) -> ModelProto:
    """The model of a file: large contents stay where they are, in it or in other files, small ones are read, functions
    of its own are inlined, and initializers are no inputs.

    Raises:
        FileFormatError: no such file, no ONNX file, a newer operator set, or weights that are not where it says.
    """
    return _checked(_parse(Path(path), to_run=to_run), path, to_run=to_run, place=Path(path))


def copied(model: ModelProto, *, to_run: bool = False) -> ModelProto:
    """The same of a model in memory, which stays as it is; weights outside it are not looked for.

    Raises:
        FileFormatError: a model that can't be walked.
    """
    own = ModelProto()
    own.CopyFrom(model)
    return _checked(own, IN_MEMORY, to_run=to_run, place=None)


def _checked(model: ModelProto, path: str | os.PathLike[str], *, to_run: bool, place: Path | None) -> ModelProto:
    try:
        _check_version(model, path)
        for tensor in _tensors(model):
            check(tensor, path)
            if tensor.data_location == TensorProto.EXTERNAL and place is not None:
                fetch(tensor, place)
        if not to_run:
            drop_contents(model)
        model = prepared(model)
        is_text = all(isinstance(name, str) for name in _names(model))
    except (TypeError, UnicodeDecodeError):  # protobuf looks only when a name is asked for, and may give bytes
        is_text = False
    if not is_text:
        raise FileFormatError(f"{path} is damaged: a name in it is no UTF-8")
    return model


def drop_contents(model: ModelProto) -> None:
    """Forget the numbers of large tensors: a walk wants their types only."""
    for tensor in _tensors(model):
        if len(tensor.raw_data) > LARGE:
            tensor.ClearField("raw_data")
        for name in ("float_data", "int32_data", "int64_data", "double_data", "uint64_data"):
            if len(getattr(tensor, name)) > LARGE // 4:
                tensor.ClearField(name)


def prepared(model: ModelProto) -> ModelProto:
    """A model as a walk wants it: functions inlined, initializers no inputs, nodes named and in order."""
    model.ir_version = max(model.ir_version, 4)  # before, every initializer had to be an input too
    if model.functions:
        # a C++ exception of no class of its own; calls then stay operators of nobody
        with suppress(Exception):
            model = inliner.inline_local_functions(model)
        if model.functions:  # some are of another operator set than the model
            with suppress(Exception):
                model = inliner.inline_local_functions(model, convert_version=True)
    taken: set[str] = set()
    for prefix, graph in graphs(model.graph):
        held = {t.name for t in graph.initializer} | {t.values.name for t in graph.sparse_initializer}
        kept = [i for i in graph.input if i.name not in held]
        if len(kept) < len(graph.input):
            del graph.input[:]
            graph.input.extend(kept)
        _sort(graph)
        own: set[str] = set()
        for number, node in enumerate(graph.node):
            name = _unlike(node.name or f"{node.op_type}_{number}", own, number)
            own.add(name)
            # another graph's name may be the same: a path before it tells them apart, as a profile names them
            node.name = name if name not in taken else _unlike(f"{prefix}{name}", taken, number)
            taken.add(node.name)
    return model


def _unlike(name: str, others: set[str], number: int) -> str:
    """The name, with the node's number behind it as often as others are called so."""
    while name in others:
        name = f"{name}#{number}"
    return name


def _sort(graph: GraphProto) -> None:
    """Put nodes after those whose results they read. ONNX asks that of a file, but converters write others, and ONNX
    Runtime takes them. Nodes in a circle keep their place at the end."""
    maker = {name: number for number, node in enumerate(graph.node) for name in node.output if name}
    needs = [{maker[name] for name in reads(node) if name in maker} for node in graph.node]
    if all(other < number for number, others in enumerate(needs) for other in others):
        return
    sorter = TopologicalSorter(dict(enumerate(needs)))
    with suppress(CycleError):  # it still gives what no circle holds up
        sorter.prepare()
    ready = sorted(sorter.get_ready())  # a heap: of those that may come next, the first of the file does
    order: list[int] = []
    while ready:
        order.append(heapq.heappop(ready))
        sorter.done(order[-1])
        for number in sorter.get_ready():
            heapq.heappush(ready, number)
    order += sorted(set(range(len(needs))) - set(order))
    nodes = [NodeProto.FromString(graph.node[number].SerializeToString()) for number in order]
    del graph.node[:]
    graph.node.extend(nodes)


def graphs(graph: GraphProto, prefix: str = "") -> Iterator[tuple[str, GraphProto]]:
    """A graph and every body in it, each with the path that tells them apart; nodes are named by then, or by the caller
    before it asks for the next graph."""
    yield prefix, graph
    for number, node in enumerate(graph.node):
        name = node.name.removeprefix(prefix) or number
        for attribute, body in bodies(node):
            yield from graphs(body, f"{prefix}{name}/{attribute}/")


def _parse(path: Path, *, to_run: bool) -> ModelProto:
    model = ModelProto()
    try:
        size = path.stat().st_size
        message = skimmed(path, to_run=to_run) if size <= LARGEST else b""
        model.ParseFromString(message)
    except OSError as error:
        raise FileFormatError(f"cannot read {path}: {error.strerror or error}") from None
    except (DecodeError, ValueError):
        raise FileFormatError(f"{path} is damaged or no ONNX file: it can't be parsed") from None
    if size > LARGEST:
        raise FileFormatError(
            f"{path} has {size:,} bytes; one ONNX file holds at most 2 GB, its weights belong in a file beside it"
        )
    if not model.ir_version or not (model.graph.node or model.graph.output):
        raise FileFormatError(f"{path} is no ONNX file: it holds no graph")
    return model


def _check_version(model: ModelProto, path: Any) -> None:
    versions = {entry.domain or "ai.onnx": entry.version for entry in model.opset_import}
    if not versions:
        raise FileFormatError(f"{path} is damaged: it doesn't say which operator sets it uses")
    # rows are (release, IR version, operator sets of ai.onnx, ai.onnx.ml, ...)
    newest = {"ai.onnx": onnx.defs.onnx_opset_version(), "ai.onnx.ml": max(row[3] for row in helper.VERSION_TABLE)}
    for domain, supported in newest.items():
        version = versions.get(domain, supported)
        of = "" if domain == "ai.onnx" else f" of {domain}"
        if version > supported:
            raise FileFormatError(
                f"{path} uses operator set {version}{of}; onnx {onnx.__version__} knows up to {supported}: "
                "install a newer onnx"
            )
        if version < 1:
            raise FileFormatError(f"{path} uses operator set {version}{of}, which doesn't exist")
    if model.ir_version > onnx.IR_VERSION:
        raise FileFormatError(
            f"{path} has IR version {model.ir_version}; onnx {onnx.__version__} knows up to {onnx.IR_VERSION}: "
            "install a newer onnx"
        )


def _names(model: ModelProto) -> Iterator[str]:
    """What a walk looks things up by."""
    yield from (entry.domain for entry in model.opset_import)
    for _, graph in graphs(model.graph):
        for value in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
            yield value.name
        for node in graph.node:
            yield from (node.op_type, node.domain, *node.input, *node.output)
            yield from (attribute.name for attribute in node.attribute)


def _tensors(model: ModelProto) -> Iterator[TensorProto]:
    for _, graph in graphs(model.graph):
        yield from graph.initializer
        for sparse in graph.sparse_initializer:
            yield from (sparse.values, sparse.indices)
        for node in graph.node:
            yield from _held(node)
    for function in model.functions:
        for node in function.node:
            yield from _held(node)


def _held(node: NodeProto) -> Iterator[TensorProto]:
    for attribute in node.attribute:
        if attribute.type == AttributeProto.TENSOR:
            yield attribute.t
        elif attribute.type == AttributeProto.TENSORS:
            yield from attribute.tensors
