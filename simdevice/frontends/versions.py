"""Which libraries made a trace: operator streams move when these do."""

from __future__ import annotations

import platform
import sys
from importlib.metadata import PackageNotFoundError, version

__all__ = ["versions"]

_LIBRARIES = ("torch", "transformers", "onnx", "torchvision", "simdevice")


def versions() -> tuple[tuple[str, str], ...]:
    """Python, and the libraries that this process has imported, with their versions."""
    found = [("python", platform.python_version())]
    for name in _LIBRARIES:
        module = sys.modules.get(name)
        if module is None:
            continue
        try:
            found.append((name, version(name)))
        except PackageNotFoundError:
            found.append((name, str(getattr(module, "__version__", "source tree"))))
    return tuple(found)
