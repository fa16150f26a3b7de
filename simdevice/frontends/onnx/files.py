"""Read an ONNX file without its weights: what a walk needs of it, and one clear line for what is wrong with it."""

from __future__ import annotations

import heapq
import math
import os
from collections.abc import Iterator
from contextlib import suppress
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, helper, inliner
from onnx.external_data_helper import ExternalDataInfo

from simdevice.errors import FileFormatError
from simdevice.frontends.onnx.nodes import bodies, reads
from simdevice.frontends.onnx.values import dtype_name
from simdevice.records.dtypes import BITS

__all__ = ["IN_MEMORY", "copied", "drop_contents", "graphs", "load", "prepared"]

IN_MEMORY = "the model"
"""What messages call a model that is in no file."""

LARGEST = 2**31 - 1
"""Bytes of one protobuf message."""

_DROP_ABOVE = 1 << 16
"""Bytes of an initializer's contents beyond which a walk can't want them."""


def load(path: str | os.PathLike[str], *, to_run: bool = False) -> ModelProto:
    """The model of a file: weights in other files stay there, large ones in it are dropped (but `to_run`), functions
    of its own are inlined, and initializers are no inputs.

    Raises:
        FileFormatError: no such file, no ONNX file, a newer operator set, or weights that are not where it says.
    """
    return _checked(_parse(Path(path)), path, to_run=to_run, folder=Path(path))


def copied(model: ModelProto, *, to_run: bool = False) -> ModelProto:
    """The same of a model in memory, which stays as it is; weights outside it are not looked for.

    Raises:
        FileFormatError: a model that can't be walked.
    """
    own = ModelProto()
    own.CopyFrom(model)
    return _checked(own, IN_MEMORY, to_run=to_run, folder=None)


def _checked(model: ModelProto, path: str | os.PathLike[str], *, to_run: bool, folder: Path | None) -> ModelProto:
    try:
        _check_version(model, path)
        for tensor in _tensors(model):
            _check_contents(tensor, path)
            if tensor.data_location == TensorProto.EXTERNAL and folder is not None:
                _check_external(tensor, folder)
        if not to_run:
            drop_contents(model)
        model = prepared(model)
        is_text = all(isinstance(node.op_type, str) for _, graph in graphs(model.graph) for node in graph.node)
    except UnicodeDecodeError:  # protobuf looks only when a name is asked for, and may give bytes
        is_text = False
    if not is_text:
        raise FileFormatError(f"{path} is damaged: a name in it is no UTF-8")
    return model


def drop_contents(model: ModelProto) -> None:
    """Forget the numbers of large tensors: a walk wants their types only."""
    for tensor in _tensors(model):
        if len(tensor.raw_data) > _DROP_ABOVE:
            tensor.ClearField("raw_data")
        for name in ("float_data", "int32_data", "int64_data", "double_data", "uint64_data"):
            if len(getattr(tensor, name)) > _DROP_ABOVE // 4:
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


def _parse(path: Path) -> ModelProto:
    try:
        size = path.stat().st_size
        if size > LARGEST:
            raise FileFormatError(
                f"{path} has {size:,} bytes; one ONNX file holds at most 2 GB, its weights belong in a file beside it"
            )
        model = onnx.load_model(os.fspath(path), format="protobuf", load_external_data=False)
    except OSError as error:
        raise FileFormatError(f"cannot read {path}: {error.strerror or error}") from None
    except (DecodeError, UnicodeDecodeError):
        raise FileFormatError(f"{path} is damaged or no ONNX file: it can't be parsed") from None
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


def _tensors(model: ModelProto) -> Iterator[TensorProto]:
    for _, graph in graphs(model.graph):
        yield from graph.initializer
        for sparse in graph.sparse_initializer:
            yield from (sparse.values, sparse.indices)
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.type == AttributeProto.TENSOR:
                    yield attribute.t


def _check_contents(tensor: TensorProto, path: Any) -> None:
    """Contents in the file are as many as its type says; a tensor may have none."""
    if any(n < 0 for n in tensor.dims):
        raise FileFormatError(f"{path} is damaged: tensor {tensor.name!r} has dimensions {list(tensor.dims)}")
    if not dtype_name(tensor.data_type):
        raise FileFormatError(f"{path} is damaged: tensor {tensor.name!r} has element type {tensor.data_type}")
    held, bits = len(tensor.raw_data), BITS.get(dtype_name(tensor.data_type), 0)
    expected = -(-math.prod(tensor.dims) * bits // 8)
    if held and bits and held != expected:
        raise FileFormatError(
            f"{path} is damaged: tensor {tensor.name!r} holds {held:,} bytes, its type needs {expected:,}"
        )


def _check_external(tensor: TensorProto, path: Path) -> None:
    """The file must be there and long enough; it is not opened."""
    info = ExternalDataInfo(tensor)
    place = path.parent / info.location
    try:
        size = place.stat().st_size
    except OSError:
        raise FileFormatError(
            f"{path} keeps {tensor.name!r} in {info.location!r}, which is missing from {path.parent}"
        ) from None
    end = (info.offset or 0) + (info.length or 0)
    if size < end:
        raise FileFormatError(f"{path}: {place} has {size:,} bytes, but {tensor.name!r} ends at {end:,}: damaged")
