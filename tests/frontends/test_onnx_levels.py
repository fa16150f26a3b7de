"""What ONNX Runtime writes at each of its optimisation levels: its own shapes, on every file that packages ship."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort  # type: ignore[import-untyped]
import pytest
from onnx import numpy_helper
from onnx_models import installed, save
from test_onnx_files import LIGHT, REAL

import simdevice as sd
from simdevice.records import Trace

LEVELS = [level for name, level in vars(ort.GraphOptimizationLevel).items() if name.startswith("ORT_")]


def written(source: str | Path, level: Any, folder: Path) -> str:
    """What ONNX Runtime makes of a file at a level."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = level
    path = options.optimized_model_filepath = str(folder / "optimised.onnx")
    ort.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])
    return path


def walked(path: str, dims: Mapping[str, int], inputs: Mapping[str, Any]) -> Trace:
    """The trace of the file, which is that of a run to the last shape."""
    trace = sd.trace(path, dims=dict(dims), inputs=dict(inputs))
    ran = sd.trace(path, dims=dict(dims), inputs=dict(inputs), shapes="run")
    assert trace.unknown() == ran.unknown() == {}
    assert [op.signature for op in trace.ops] == [op.signature for op in ran.ops]
    return trace


@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)
@pytest.mark.parametrize("name", REAL)
def test_a_shipped_model_has_a_runs_shapes_at_every_level(name: str, level: Any, tmp_path: Path) -> None:
    package, file, dims, inputs = REAL[name]
    trace = walked(written(installed(package) / file, level, tmp_path), dims, inputs)
    # blocks of channels are filled up, nothing else is more than in the file
    blocked = any(op.name.startswith("com.microsoft.nchwc.") for op in trace.ops)
    plain = sd.trace(str(installed(package) / file), dims=dims, inputs=inputs)
    assert trace.flops == pytest.approx(plain.flops, rel=1e-3) or (blocked and trace.flops > plain.flops)


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)
@pytest.mark.parametrize("path", LIGHT, ids=lambda path: path.stem)
def test_a_light_model_has_a_runs_shapes_at_every_level(path: Path, level: Any, tmp_path: Path) -> None:
    walked(written(path, level, tmp_path), {}, {})


# Fusions below the operator set that ONNX has them in

NORM = """m = ReduceMean<axes = [-1]>(x)  d = Sub(x, m)  e = Pow(d, two)  v = ReduceMean<axes = [-1]>(e)
          i = Add(v, eps)  r = Sqrt(i)  n = Div(d, r)  g = Mul(n, scale)"""
BLOCKS = {
    "LayerNormalization": (NORM + "  s = Add(g, shift)  y = MatMul(s, w)", "onnx.LayerNormalization"),
    "SimplifiedLayerNormalization": (
        """e = Pow(x, two)  v = ReduceMean<axes = [-1]>(e)  i = Add(v, eps)  r = Sqrt(i)  n = Div(x, r)
           g = Mul(n, scale)  y = MatMul(g, w)""",
        "onnx.SimplifiedLayerNormalization",
    ),
    "SkipLayerNormalization": (
        NORM.replace("(x)", "(a)").replace("(x, m)", "(a, m)").replace("m =", "p = Relu(x)  a = Add(x, p)  m =", 1)
        + "  s = Add(g, shift)  y = MatMul(s, w)",
        "com.microsoft.SkipLayerNormalization",
    ),
    "Gelu": (
        """h = MatMul(x, w)  b = Add(h, wide)  q = Div(b, root)  c = Erf(q)  o = Add(c, one)  k = Mul(b, o)
           y = Mul(k, half)""",
        "com.microsoft.Gelu",
    ),
}


@pytest.mark.parametrize("level", [LEVELS[2], LEVELS[-1]], ids=lambda level: level.name)
@pytest.mark.parametrize("opset", [11, 14, 16])
@pytest.mark.parametrize("name", BLOCKS)
def test_a_fusion_has_shapes_at_every_operator_set(name: str, opset: int, level: Any, tmp_path: Path) -> None:
    body, fused = BLOCKS[name]
    numbers = {"two": 2.0, "eps": 1e-5, "root": 2.0**0.5, "one": 1.0, "half": 0.5}
    stored = {key: np.array(value, np.float32) for key, value in numbers.items()}
    stored |= {"scale": np.ones(8, np.float32), "shift": np.ones(8, np.float32), "wide": np.ones(16, np.float32)}
    stored["w"] = np.ones((8, 16), np.float32)
    path = save(tmp_path, f"g (float[2, 5, 8] x) => (float[2, 5, 16] y) {{ {body} }}", opset=opset)
    model = onnx.load(path)
    model.graph.initializer.extend(numpy_helper.from_array(v, n) for n, v in stored.items())
    onnx.save(model, path)
    trace = walked(written(path, level, tmp_path), {}, {})
    assert fused in [op.name for op in trace.ops]
    assert sum(p.flops for op in trace.ops for p in op.cost.products) == 2 * 2 * 5 * 8 * 16
    (norm,) = (op for op in trace.ops if op.name == fused)
    # 80 elements: 5 each for a norm, 6 with a sum; a GELU is one for each of 160
    assert norm.flops == {"Gelu": 160, "SkipLayerNormalization": 6 * 80}.get(name, 5 * 80)
