"""What an ONNX file that was exported without its weights says of its inputs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from onnx import ModelProto

from simdevice.errors import FileFormatError

__all__ = ["MARK", "mark", "read_marks"]

MARK = "simacc.weightless"
"""Under this key of the model's metadata: names of inputs that are parameters and buffers, and aliases."""


def mark(parameters: Iterable[str], buffers: Iterable[str], aliases: Mapping[str, str]) -> str:
    """The value of the key. `aliases` says under which other name a tied parameter's storage is an input."""
    return json.dumps({"parameters": list(parameters), "buffers": list(buffers), "aliases": dict(aliases)})


def read_marks(model: ModelProto) -> tuple[frozenset[str] | None, frozenset[str]]:
    """Names of parameters and of buffers among the inputs; None for a file that was exported elsewhere.

    Raises:
        FileFormatError: a mark that can't be read.
    """
    for entry in model.metadata_props:
        if entry.key == MARK:
            try:
                said = json.loads(entry.value)
                return frozenset(said["parameters"]), frozenset(said["buffers"])
            except (ValueError, KeyError, TypeError) as error:
                raise FileFormatError(f"the file's note of its weights ({MARK}) is damaged: {error!r}") from None
    return None, frozenset()
