"""Arguments that several commands share, spelt and explained once."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

from simdevice.errors import SpecError

__all__ = [
    "DeviceOption",
    "EngineOption",
    "JsonOption",
    "ModelArgument",
    "OutputOption",
    "SetOption",
    "TargetArgument",
    "Tracing",
    "overrides",
    "parse_dims",
    "tracing_options",
]

ModelArgument = Annotated[
    str,
    typer.Argument(
        metavar="MODEL", help="A model name, a config.json, an .onnx or .pt2 file, or package.module:function."
    ),
]
TargetArgument = Annotated[
    str, typer.Argument(metavar="MODEL|TRACE", help="What `trace` takes, or a trace file (.json, .npz).")
]
EngineOption = Annotated[
    str | None,
    typer.Option("--engine", help="native (the default), python, simpy, or cycle (needs --set quantise=true)."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
OutputOption = Annotated[
    Path | None, typer.Option("--output", "-o", help="Save the trace: .npz is compressed columns, else JSON.")
]
DeviceOption = Annotated[str, typer.Option("--device", help="A device by name (see `devices`), or a YAML file.")]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="FIELD=VALUE", help="Override a device field: buffer_bytes=512KiB.")
]

_R = TypeVar("_R")


@dataclass(frozen=True)
class Tracing:
    """How a model becomes a trace: each field is an option, with its default, in the order of `--help`."""

    tokens: Annotated[
        int | None,
        typer.Option("--tokens", min=1, help="Prefill length (default: 2048, or what the model has room for)."),
    ] = None
    decode: Annotated[
        int | None, typer.Option("--decode", min=1, help="One decode step after a context of this many tokens.")
    ] = None
    batch: Annotated[int | None, typer.Option("--batch", min=1, help="Sequences (or images) at once (default: 1).")] = (
        None
    )
    dtype: Annotated[
        str | None, typer.Option("--dtype", help="Type of weights and activations (default: the configuration's).")
    ] = None
    cache: Annotated[
        bool | None,
        typer.Option(
            "--cache/--no-cache", help="Whether a prefill fills a key-value cache (default: where there is one)."
        ),
    ] = None
    attention: Annotated[
        str | None,
        typer.Option("--attention", help="'fused', as a CPU runs it, or 'math': products and softmax (default: math)."),
    ] = None
    frontend: Annotated[
        str | None,
        typer.Option("--frontend", help="The road into a trace (default: the program's own)."),
    ] = None
    scopes: Annotated[bool, typer.Option("--scopes/--no-scopes", help="Record module paths.")] = True
    strict: Annotated[bool, typer.Option("--strict", help="An operator without a cost rule is an error.")] = False
    flop_counter: Annotated[
        bool, typer.Option("--flop-counter", help="Also take PyTorch's own FlopCounterMode total, for comparison.")
    ] = False
    dim: Annotated[
        list[str] | None,
        typer.Option("--dim", metavar="NAME=SIZE", help="Size of a file's open dimension: batch=1, x=1x3x224x224."),
    ] = None
    shapes: Annotated[
        str | None, typer.Option("--shapes", help="Of an ONNX file: 'infer', or 'run' for one run in ONNX Runtime.")
    ] = None

    def options(self) -> dict[str, Any]:
        """Those of a source, as `simdevice.trace` has them; None where not given.

        Raises:
            SpecError: a --dim that is no NAME=SIZE.
        """
        names = ("tokens", "decode", "batch", "dtype", "cache", "attention", "shapes")
        return {**{name: getattr(self, name) for name in names}, "dims": parse_dims(self.dim) if self.dim else None}

    def without(self, options: set[str]) -> Tracing:
        """The same with these of a source's options not given."""
        names = {"dim" if name == "dims" else name for name in options}
        nothing: dict[str, Any] = dict.fromkeys(names & vars(self).keys())
        return replace(self, **nothing)


def tracing_options(*, without: tuple[str, ...] = ()) -> Callable[[Callable[..., _R]], Callable[..., _R]]:
    """A command's `*, tracing: Tracing` is one option per field to typer; fields in `without` keep their defaults."""
    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=getattr(Tracing, name), annotation=hint)
        for name, hint in get_type_hints(Tracing, include_extras=True).items()
        if name not in without
    ]

    def decorate(command: Callable[..., _R]) -> Callable[..., _R]:
        @wraps(command)
        def run(**values: object) -> _R:
            tracing = Tracing(**{option.name: values.pop(option.name) for option in options})  # type: ignore[arg-type]
            return command(**values, tracing=tracing)

        signature = inspect.signature(command, eval_str=True)
        parameters = list(signature.parameters.values())
        at = parameters.index(signature.parameters["tracing"])
        parameters[at : at + 1] = options
        run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]  # what typer reads
        return run

    return decorate


def parse_dims(texts: list[str]) -> dict[str, Any]:
    """`["batch=1", "image=1x3x224x224"]` as dimensions by name.

    Raises:
        SpecError: no NAME=SIZE, or a size that is no whole number.
    """
    dims: dict[str, Any] = {}
    for text in texts:
        name, equals, size = text.rpartition("=")
        parts = size.split("x")
        if not equals or not name or not all(part.isdecimal() for part in parts):
            raise SpecError(f"expected --dim NAME=SIZE such as --dim batch=1, got {text!r}")
        sizes = tuple(int(part) for part in parts)
        dims[name] = sizes[0] if len(sizes) == 1 else sizes
    return dims


def overrides(settings: list[str] | None) -> dict[str, object]:
    """`["clock_hz=2 GHz"]` as keywords for a device.

    Raises:
        SpecError: a setting without "=", a field set twice, or one of the command's own options.
    """
    fields: dict[str, object] = {}
    for setting in settings or []:
        field, equals, value = setting.partition("=")
        if not equals or not field or not value:
            raise SpecError(f"expected --set FIELD=VALUE, got {setting!r}")
        if field in fields:
            raise SpecError(f"--set {field} is given twice")
        if field in ("device", "engine", "fused"):
            raise SpecError(f"--set {field}: that is no field of a device; give --{field} where the command has it")
        fields[field] = {"true": True, "false": False}.get(value.lower(), value)
    return fields
