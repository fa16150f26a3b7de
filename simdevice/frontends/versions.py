"""Which libraries made a trace: operator streams move when these do."""

from __future__ import annotations

import platform
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version

__all__ = ["versions"]

_LIBRARIES = ("torch", "transformers", "onnx", "torchvision", "simdevice")


def versions() -> tuple[tuple[str, str], ...]:
    """Python, and the libraries that this process has imported, with their versions."""
    imported = [name for name in _LIBRARIES if name in sys.modules]
    return (("python", platform.python_version()), *((name, _version(name)) for name in imported))


@cache  # reading a package's metadata takes a millisecond
def _version(name: str) -> str:
    said = getattr(sys.modules[name], "__version__", None)  # of PyTorch with its build, which metadata may leave out
    if said is not None:
        return str(said)
    try:
        return version(name)
    except PackageNotFoundError:
        return "source tree"
