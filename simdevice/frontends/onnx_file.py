"""An ONNX file as a program. Knows no more than its path and what was asked; `frontends.onnx` reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from simdevice.errors import CaptureError
from simdevice.frontends.base import Document

__all__ = ["OnnxFile"]


@dataclass(frozen=True)
class OnnxFile(Document):
    """`dims` bind open dimensions, `inputs` give contents by name where they matter; `shapes` is "infer", or "run" for
    the shapes of one run in ONNX Runtime on those inputs, and seeded ones for the rest."""

    front_ends: ClassVar[tuple[str, ...]] = ("onnx",)
    path: str
    dims: Mapping[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, Any] = field(default_factory=dict)
    shapes: str = "infer"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """A file is no callable."""
        raise CaptureError(f"{self.path} is an ONNX file: only the 'onnx' front end reads it")
