"""Export a PyTorch module to ONNX without its weights: parameters and buffers stay as typed inputs."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from onnx import ModelProto

from simdevice.errors import CaptureError, UnknownNameError
from simdevice.files import atomic_write
from simdevice.frontends.base import Workload
from simdevice.frontends.describe import one_line
from simdevice.frontends.export import exported, without_cache
from simdevice.frontends.fake import fake_cpu
from simdevice.frontends.onnx.files import prepared
from simdevice.frontends.onnx.marks import MARK, mark

__all__ = ["ExportedModel", "export_model", "save"]


@dataclass(frozen=True)
class ExportedModel:
    """`weights` and `constants` are the names of inputs that are parameters and buffers, `stored` the tensors behind
    them (which may have no data); `aliases` says under which other name a tied parameter's storage is an input."""

    model: ModelProto
    weights: frozenset[str]
    constants: frozenset[str]
    aliases: dict[str, str]
    stored: dict[str, torch.Tensor]
    workload: Workload


def export_model(workload: Workload, *, fake: str | None = None, opset: int | None = None) -> ExportedModel:
    """The module's graph in memory; a prefill is exported with its cache off, as `torch.export` needs it.
    `opset` is the exporter's own where none is given.

    Raises:
        UnknownNameError: `fake` is neither None nor "cpu".
        CaptureError: a program that can't be exported.
    """
    if fake not in (None, "cpu"):
        raise UnknownNameError("kind of fake tensors", str(fake), ["cpu"])
    workload = without_cache(workload)
    with contextlib.ExitStack() as stack:
        if fake is not None:
            twins = stack.enter_context(fake_cpu(workload.program))
            workload = replace(workload, args=twins.tree(workload.args), kwargs=twins.tree(dict(workload.kwargs)))
        program = exported(workload, decompose=False)
        with _quiet():
            try:
                # Optimising would compute with the weights, which are not there; the walk folds instead.
                onnx_program: Any = torch.onnx.export(
                    program, dynamo=True, optimize=False, verbose=False, opset_version=opset
                )
            except Exception as error:  # the exporter raises classes of its own for each step
                raise CaptureError(f"torch.onnx can't export this program: {_reason(error)}") from error
    got = onnx_program.model.opset_imports.get("")
    if opset is not None and got != opset:  # where it can't convert, the exporter keeps its own and only logs it
        raise CaptureError(f"torch.onnx can't write this program at opset {opset}, only at {got}")
    return _without_weights(onnx_program.model, program, workload)


def _reason(error: BaseException) -> str:
    """The innermost cause: what is around it are the exporter's steps and colours."""
    while error.__cause__ is not None:
        error = error.__cause__
    return one_line(Exception(re.sub(r"\x1b\[[0-9;]*m", "", str(error)) or type(error).__name__))


def save(
    workload: Workload, path: str | os.PathLike[str], *, fake: str | None = None, opset: int | None = None
) -> ExportedModel:
    """Export to a file; it appears whole or not at all."""
    result = export_model(workload, fake=fake, opset=opset)
    with atomic_write(os.fspath(path), "wb") as file:
        file.write(result.model.SerializeToString())
    return result


def _without_weights(model: Any, program: torch.export.ExportedProgram, workload: Workload) -> ExportedModel:
    """Turn initializers into inputs, one per storage; drop what the exporter noted about Python source."""
    import onnx_ir  # it comes with the exporter, which has said by now if it is missing

    graph = model.graph
    parameters = set(program.graph_signature.parameters)
    owners: dict[tuple[int, Any, Any], Any] = {}
    aliases: dict[str, str] = {}
    weights: list[str] = []
    constants: list[str] = []
    stored: dict[str, torch.Tensor] = {}
    for name, value in list(graph.initializers.items()):
        del graph.initializers[name]
        tensor = program.state_dict.get(name, program.constants.get(name))
        if not isinstance(tensor, torch.Tensor):
            graph.initializers[name] = value  # a number the exporter made itself
            continue
        key = _identity(tensor)
        owner = owners.get(key)
        if owner is not None:
            aliases[name] = owner.name
            value.replace_all_uses_with(owner)
            continue
        owners[key] = value
        value.const_value = None
        graph.inputs.append(value)
        (weights if name in parameters else constants).append(name)
        stored[name] = tensor
    for name, tensor in program.state_dict.items():  # names that torch.export itself took for one
        owner = owners.get(_identity(tensor)) if isinstance(tensor, torch.Tensor) else None
        if owner is not None and owner.name != name:
            aliases.setdefault(name, owner.name)
    for node in onnx_ir.traversal.RecursiveGraphIterator(graph):
        scopes = node.metadata_props.get("pkg.torch.onnx.name_scopes")
        node.metadata_props.clear()
        if scopes is not None:
            node.metadata_props["pkg.torch.onnx.name_scopes"] = scopes
    for value in (*graph.inputs, *(o for node in graph for o in node.outputs)):
        value.metadata_props.clear()
    model.graph.metadata_props.clear()
    model.metadata_props.clear()
    model.metadata_props[MARK] = mark(weights, constants, aliases)
    proto = prepared(onnx_ir.to_proto(model))
    return ExportedModel(proto, frozenset(weights), frozenset(constants), aliases, stored, workload)


def _identity(tensor: torch.Tensor) -> tuple[int, Any, Any]:
    """Equal for tensors that are the same elements of the same storage."""
    return tensor.untyped_storage()._cdata, tensor.shape, tensor.stride()


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """The exporter logs that torchvision is missing, and warns of PyTorch's own deprecations; its opset converter
    logs tracebacks where it fails."""
    exporter, converter = logging.getLogger("torch.onnx"), logging.getLogger("onnxscript")
    was, converted = exporter.level, converter.level
    exporter.setLevel(logging.ERROR)
    converter.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        exporter.setLevel(was)
        converter.setLevel(converted)
