"""What a user means by MODEL: a name, a configuration file, an ONNX file, or `package.module:function`."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from simdevice.errors import SimdeviceError, SpecError, UnknownNameError
from simdevice.frontends import Workload
from simdevice.frontends.onnx_file import OnnxFile
from simdevice.workloads import models

__all__ = ["DEFAULT_TOKENS", "ask", "resolve"]

DEFAULT_TOKENS = 2048
"""Prefill length where none is given, or what the model has positions for when that is less."""


def resolve(
    model: str,
    *,
    tokens: int | None = None,
    decode: int | None = None,
    batch: int = 1,
    dtype: str | None = None,
    onnx: Mapping[str, Any] | None = None,
) -> Workload:
    """The workload that `model` names. `onnx` holds what only an ONNX file takes: `dims`, `inputs`, `shapes`.

    Raises:
        SimdeviceError: no such name, file, module or function, or a function that raises or doesn't
            return (module, inputs); always one line.
    """
    if model.lower().endswith(".onnx"):
        if (tokens, decode, dtype, batch) != (None, None, None, 1):
            raise SpecError(f"{model!r} says its inputs' sizes: bind open ones by dims (--dim), not tokens or batch")
        return Workload(OnnxFile(model, **(onnx or {})), name=Path(model).name)
    if onnx:
        raise SpecError(f"{' and '.join(onnx)} go with an ONNX file, and {model!r} is none")
    if ":" in model and not model.endswith(".json") and not Path(model).exists():
        if (tokens, decode, dtype, batch) != (None, None, None, 1):
            raise SpecError(f"{model!r} brings its own inputs: tokens, decode, batch and dtype don't apply")
        return _from_function(model)
    if Path(model).suffix == ".json":
        built, name = models.build(config=model, dtype=dtype), Path(model).stem
    elif os.sep in model or Path(model).is_file():
        raise SpecError(
            f"expected a model name, a config.json, an .onnx file or package.module:function, got {model!r}"
        )
    else:
        built, name = models.build(model, dtype=dtype), model
    return ask(built, tokens=tokens, decode=decode, batch=batch, name=name)


def ask(
    model: torch.nn.Module, *, tokens: int | None = None, decode: int | None = None, batch: int = 1, name: str = ""
) -> Workload:
    """A model with inputs made for it: one decode step after `decode` tokens, else a prefill of `tokens`."""
    if tokens is not None and decode is not None:
        raise SpecError("give tokens for a prefill or decode for a decode step, not both")
    room, asked = _positions(model), tokens if decode is None else decode + 1
    if room is not None and asked is not None and asked > room:
        raise SpecError(f"{name or type(model).__name__} has {room:,} learned positions, too few for {asked:,} tokens")
    if decode is not None:
        return models.decode(model, decode, batch=batch, name=name)
    return models.prefill(model, tokens if tokens is not None else _default(model), batch=batch, name=name)


def _positions(model: torch.nn.Module) -> int | None:
    """Rows of a learned position table, which a longer input would run past (on meta without an error)."""
    tables = (m for n, m in model.named_modules() if n.rpartition(".")[2] in ("position_embeddings", "wpe"))
    return min((t.num_embeddings for t in tables if isinstance(t, torch.nn.Embedding)), default=None)


def _default(model: torch.nn.Module) -> int:
    config = getattr(model, "config", None)
    limits = [getattr(config, field, None) for field in ("max_position_embeddings", "n_positions")]
    return min([DEFAULT_TOKENS, *(limit for limit in limits if isinstance(limit, int) and limit > 0)])


def _from_function(spec: str) -> Workload:
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
