"""Shapes from one profiled run in ONNX Runtime: exact for every node that was executed, dynamic or not."""

from __future__ import annotations

import json
import os
import tempfile
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper

from simdevice.errors import CaptureError, UnknownNameError
from simdevice.frontends.describe import one_line

__all__ = ["Profile", "run", "seeded_inputs"]

Seen = list[tuple[tuple[int, ...], str]]

_DTYPES = {
    "bfloat16": "bfloat16",
    "bool": "bool",
    "double": "float64",
    "float": "float32",
    "float16": "float16",
    "string": "string",
    **{f"{u}int{n}": f"{u}int{n}" for u in ("", "u") for n in (4, 8, 16, 32, 64)},
    **{f"float8{kind}": f"float8_{kind}" for kind in ("e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz")},
}


class Profile:
    """Output shapes by node, in order of execution: a node of a loop's body was executed several times.

    `turn` moves on to the next execution of every node named.
    """

    def __init__(self, seen: Mapping[str, list[Seen]]) -> None:
        self._seen = seen
        self._at: dict[str, int] = defaultdict(int)

    def executed(self, node: NodeProto) -> int:
        """How often the node ran."""
        return len(self._seen.get(node.name, ()))

    def outputs(self, node: NodeProto) -> Seen | None:
        """Shapes and types of the node's next execution; None where the run didn't see it."""
        events = self._seen.get(node.name)
        if not events:
            return None
        place = self._at[node.name]
        self._at[node.name] = place + 1
        return events[min(place, len(events) - 1)]


def seeded_inputs(graph: GraphProto, shapes: Mapping[str, tuple[int, ...] | None]) -> dict[str, NDArray[Any]]:
    """Contents for every input: normal numbers for floats, zeros for whole numbers and text, True for conditions.

    Raises:
        CaptureError: an input that is no tensor.
    """
    random = np.random.default_rng(0)
    arrays: dict[str, NDArray[Any]] = {}
    for value in graph.input:
        shape = shapes.get(value.name)
        if shape is None:
            raise CaptureError(f"input {value.name!r} is no tensor: give its contents to run the model")
        dtype = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        if value.type.tensor_type.elem_type == TensorProto.STRING:
            arrays[value.name] = np.full(shape, "", object)
        elif dtype.kind == "b":
            arrays[value.name] = np.ones(shape, dtype)
        elif dtype.kind in "iu":
            arrays[value.name] = np.zeros(shape, dtype)
        else:
            arrays[value.name] = random.standard_normal(shape).astype(dtype)
    return arrays


def run(model: ModelProto, inputs: Mapping[str, NDArray[Any]], path: str | None) -> Profile:
    """Run the model once on the CPU, unoptimised, and read what it saw. Files of its own are gone afterwards.

    `path` is where the model came from: its weights may be beside it.

    Raises:
        CaptureError: ONNX Runtime is missing, or can't run the model on these inputs.
    """
    try:
        import onnxruntime as ort  # type: ignore[import-untyped]
    except ImportError:
        raise CaptureError("shapes='run' needs ONNX Runtime: pip install onnxruntime") from None
    names = [i.name for i in model.graph.input]
    for name in inputs:
        if name not in names:
            raise UnknownNameError("input", name, names)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    options.enable_profiling = True
    if path is not None:
        folder = os.fspath(Path(path).absolute().parent)
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", folder)
    with tempfile.TemporaryDirectory(prefix="simacc-") as folder:
        options.profile_file_prefix = os.path.join(folder, "profile")
        try:
            session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
            _execute(session, model.graph, dict(inputs), ort.OrtValue)
        except Exception as error:  # ONNX Runtime raises classes of its own per status code
            raise CaptureError(f"ONNX Runtime can't run {path or 'the model'}: {one_line(error)}") from None
        events = json.loads(Path(session.end_profiling()).read_text(encoding="utf-8"))
    return Profile(_read(events))


_FOREIGN = {
    getattr(TensorProto, name): view
    for names, view in (
        (("BFLOAT16",), np.uint16),
        (("FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ"), np.uint8),
    )
    for name in names
}
"""Element types that ONNX Runtime takes from no numpy array, and what their bits look like."""


def _execute(session: Any, graph: GraphProto, inputs: dict[str, Any], values: Any) -> None:
    """Run once. Types that numpy doesn't know go in and come out as `values` of ONNX Runtime's own."""
    types = {v.name: v.type.tensor_type.elem_type for v in (*graph.input, *graph.output)}
    if not any(t in _FOREIGN for t in types.values()) or not all(isinstance(a, np.ndarray) for a in inputs.values()):
        session.run(None, inputs)
        return
    session.run_with_ort_values(
        None,
        {
            name: values.ortvalue_from_numpy_with_onnx_type(array.view(_FOREIGN[types[name]]), types[name])
            if types[name] in _FOREIGN
            else values.ortvalue_from_numpy(array)
            for name, array in inputs.items()
        },
    )


def _read(events: list[dict[str, Any]]) -> dict[str, list[Seen]]:
    suffix = "_kernel_time"
    seen: dict[str, list[tuple[int, Seen]]] = defaultdict(list)
    for event in events:
        args = event.get("args", {})
        if event.get("cat") == "Node" and event["name"].endswith(suffix) and "output_type_shape" in args:
            seen[event["name"].removesuffix(suffix)].append((event["ts"], _shapes(args["output_type_shape"])))
    return {name: [shapes for _, shapes in sorted(entries, key=lambda f: f[0])] for name, entries in seen.items()}


def _shapes(entries: list[dict[str, list[int]]]) -> Seen:
    return [(tuple(shape), _DTYPES.get(kind, "")) for entry in entries for kind, shape in entry.items()]
