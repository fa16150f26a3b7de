"""`simdevice.trace`: a model by name or as an object, through any front end, to a costed Trace."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import torch

from simdevice import frontends
from simdevice.costs import Costs, Rule
from simdevice.costs.registry import RuleFunction
from simdevice.errors import SpecError
from simdevice.frontends import Workload
from simdevice.frontends.onnx_file import OnnxFile
from simdevice.records import Trace
from simdevice.workloads import models
from simdevice.workloads.resolve import ask, resolve

__all__ = ["trace"]


def trace(
    model: str | os.PathLike[str] | Workload | torch.nn.Module | Callable[..., Any],
    *inputs: Any,
    frontend: str = "dispatch",
    fake: str | None = None,
    tokens: int | None = None,
    decode: int | None = None,
    batch: int | None = None,
    kwargs: Mapping[str, Any] | None = None,
    scopes: bool = True,
    rules: Mapping[str, Rule | RuleFunction] | None = None,
    strict: bool = False,
    flop_counter: bool = False,
    dims: Mapping[str, Any] | None = None,
    shapes: str = "infer",
) -> Trace:
    """The operators of one call of a model, with what each costs.

    Args:
        model: a name (`models.names()`), a configuration file, an ONNX file, `package.module:function`, a
            module, any callable (a whole training step, say), or a Workload.
        inputs, kwargs: what a module or callable is called with. Without them a module is asked by
            `tokens` (a prefill) or `decode` (one step after that many tokens), `batch` sequences at once.
            For an ONNX file, `kwargs` are contents by input name, where the walk needs them.
        frontend: which road the program takes; `frontends.FRONT_ENDS` lists them. An ONNX file has but one.
        fake: "cpu" for the operators a CPU would run, without data.
        scopes: record module paths.
        rules: cost rules by operator name, on top of the registry for this trace only.
        strict: an operator without a rule is an error.
        flop_counter: also take PyTorch's own FlopCounterMode total, for comparison.
        dims: sizes of an ONNX file's open dimensions, by name.
        shapes: "infer", or "run" for those of one run of an ONNX file in ONNX Runtime.

    Raises:
        SimdeviceError: an unknown name, inputs that can't be made, or (strict) an uncosted operator.
    """
    if isinstance(model, os.PathLike):
        model = os.fspath(model)
    onnx = {k: v for k, v in {"dims": dims, "inputs": kwargs, "shapes": shapes}.items() if v and v != "infer"}
    if isinstance(model, str) and model.lower().endswith(".onnx"):
        if inputs:
            raise SpecError(f"give the inputs of {model!r} by name, as kwargs")
        workload = resolve(model, tokens=tokens, decode=decode, batch=batch or 1, onnx=onnx)
    else:
        if dims or shapes != "infer":
            raise SpecError("dims and shapes go with an ONNX file")
        workload = _workload(model, inputs, kwargs, tokens, decode, batch)
    if isinstance(workload.program, OnnxFile) and frontend == "dispatch":
        frontend = "onnx"
    capture = frontends.get(frontend)
    costs = Costs(rules, strict=strict)
    return capture(workload, costs, fake=fake, scopes=scopes, flop_counter=flop_counter)


def _workload(
    model: Any,
    inputs: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None,
    tokens: int | None,
    decode: int | None,
    batch: int | None,
) -> Workload:
    asked = (tokens, decode, batch) != (None, None, None)
    given = bool(inputs or kwargs)
    if asked and given:
        raise SpecError("give inputs, or tokens, decode and batch to have them made, not both")
    if isinstance(model, str):
        if given:
            raise SpecError(
                f"inputs for {model!r} are made from tokens or decode; to give your own, build the model first"
            )
        return resolve(model, tokens=tokens, decode=decode, batch=batch or 1)
    if isinstance(model, Workload):
        if asked or given:
            raise SpecError("a Workload holds its inputs already")
        return model
    if not callable(model):
        raise SpecError(f"expected a model name, a module, a function or a Workload, got {model!r}")
    if given:
        return Workload(model, inputs, kwargs or {}, name=_name(model))
    if models.takes_made_inputs(model):
        return ask(model, tokens=tokens, decode=decode, batch=batch or 1, name=_name(model))
    if asked:
        raise SpecError(f"inputs can be made for transformers models only: give {_name(model)} its inputs")
    return Workload(model, name=_name(model))


def _name(model: Any) -> str:
    return getattr(model, "__qualname__", None) or type(model).__name__
