"""What every integration does: import the framework or name the extra, ask for simacc, replace and put back."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

from simdevice.extras import extra
from simdevice.torch_backend import bootstrap
from simdevice.torch_backend.patch import Patch

__all__ = ["bindings", "framework", "with_constant"]


def framework(module: str, integration: str) -> Any:
    """The framework's module; simacc is there for all of PyTorch from now on.

    Raises:
        SimdeviceError: it is not installed; names the extra.
        BuildError: simacc is not compiled and cannot be.
    """
    imported = extra(module, "integrations", f"simdevice.integrations.{integration}")
    bootstrap.native()
    return imported


def bindings(libraries: tuple[str, ...], name: str, original: Any, replacement: Callable[[Any], Any]) -> list[Patch]:
    """A patch for every loaded module of these libraries that has imported `original` under its name: each looks its
    own up when it calls. Modules that are loaded later import what stands there then. All get the same replacement."""
    made: list[Any] = []

    def once(standing: Any) -> Any:
        if not made:
            made.append(replacement(standing))
        return made[0]

    once.__doc__, once.__name__ = replacement.__doc__, replacement.__name__
    return [
        Patch(module, name, once)
        for path, module in sorted(sys.modules.items())
        if path.partition(".")[0] in libraries and getattr(module, "__dict__", {}).get(name) is original
    ]


def with_constant(function: Any, before: tuple[str, ...], after: tuple[str, ...]) -> Any:
    """The same function with another tuple where its code has `before`: a list of devices that is closed because it
    stands in the middle of a function.

    Raises:
        RuntimeError: the function has no such tuple: the framework has changed.
    """
    code: types.CodeType = function.__code__
    if before not in code.co_consts:
        raise RuntimeError(
            f"expected the devices {before} in {function.__module__}.{function.__qualname__}, which has none such: "
            "this version is not supported; install the one that simdevice[integrations] was tested with"
        )
    constants = tuple(after if constant == before else constant for constant in code.co_consts)
    copy = types.FunctionType(
        code.replace(co_consts=constants),
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__dict__.update(function.__dict__)
    copy.__doc__, copy.__qualname__, copy.__module__ = function.__doc__, function.__qualname__, function.__module__
    return copy
