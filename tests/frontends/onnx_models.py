"""Small ONNX models written as text, saved where a test may read them."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import onnx
from onnx import parser

__all__ = ["installed", "save"]


def save(folder: Path, text: str, *, opset: int = 20, name: str = "model.onnx", ir: int = 9) -> str:
    """The model of a graph's text: `g (float[N] x) => (float[N] y) { y = Relu(x) }`."""
    domains = f'"" : {opset}, "com.microsoft" : 1, "local" : 1'
    model = parser.parse_model(f"<ir_version: {ir}, opset_import: [{domains}]> {text}")
    path = folder / name
    onnx.save(model, path)
    return str(path)


def installed(package: str) -> Path:
    """The folder of an installed package, found without importing it."""
    found = importlib.util.find_spec(package)
    assert found is not None, f"{package} is not installed: pip install --no-deps {package.replace('_', '-')}"
    assert found.origin is not None
    return Path(found.origin).parent
