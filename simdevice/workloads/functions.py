"""`package.module:function`: a user's own function that returns (module, inputs)."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from simdevice.errors import SimdeviceError, SpecError, UnknownNameError
from simdevice.frontends import Workload

__all__ = ["called"]


def called(spec: str) -> Workload:
    """What the function returns as a Workload; the working directory is searched too.

    Raises:
        SpecError, UnknownNameError: no such module or function, one that raises, or another result; always one line.
    """
    module_name, _, function_name = spec.partition(":")
    with _importing_from_here():
        function = _function(spec, module_name, function_name)
        try:
            made = function()
        except SimdeviceError:
            raise
        except (Exception, SystemExit) as error:
            raise SpecError(f"{spec} raised {type(error).__name__}: {' '.join(str(error).split())}") from error
    if not (isinstance(made, tuple) and len(made) == 2 and callable(made[0])):
        got = f"a tuple of {len(made)}" if isinstance(made, tuple) else type(made).__name__
        raise SpecError(f"expected {spec} to return (module, inputs), got {got}")
    program, inputs = made
    if isinstance(inputs, Mapping):
        return Workload(program, (), inputs, name=spec)
    return Workload(program, tuple(inputs) if isinstance(inputs, (list, tuple)) else (inputs,), name=spec)


def _function(spec: str, module_name: str, function_name: str) -> Callable[[], Any]:
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise SpecError(f"cannot import {module_name!r} for {spec!r}: no module named {error.name!r}") from None
    except (Exception, SystemExit) as error:
        reason = " ".join(str(error).split())
        raise SpecError(f"importing {module_name!r} raised {type(error).__name__}: {reason}") from error
    found = getattr(module, function_name, None)
    if found is None:
        public = [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]
        raise UnknownNameError(f"function of {module_name}", function_name, public)
    if not callable(found):
        raise SpecError(f"{spec} is no function but {type(found).__name__}")
    return found  # type: ignore[no-any-return]  # checked to be callable


@contextmanager
def _importing_from_here() -> Iterator[None]:
    """A console script's path lacks the working directory, where the user's own module usually is."""
    here = os.getcwd()
    added = here not in sys.path and "" not in sys.path
    if added:
        sys.path.insert(0, here)
    try:
        yield
    finally:
        if added:
            sys.path.remove(here)
