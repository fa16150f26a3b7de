"""A program of `torch.export`, as an object or a `.pt2` file: read, and its open sizes bound. Walks nothing itself."""

from __future__ import annotations

import logging
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

from simdevice.errors import CaptureError, FileFormatError, SpecError, UnknownNameError
from simdevice.frontends.base import Document
from simdevice.frontends.describe import one_line

__all__ = ["Exported", "bind", "read"]


@dataclass(frozen=True)
class Exported(Document):
    """`given` is a path or a `torch.export.ExportedProgram`; `dims` are sizes by name: see `bind`."""

    front_ends: ClassVar[tuple[str, ...]] = ("export",)
    why: ClassVar[str] = "it is a graph already; for another road, trace program.module() with inputs"
    given: Any
    dims: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Nothing here is run."""
        raise CaptureError(f"an exported program is read by the 'export' front end only: {self.why}")

    @property
    def shown(self) -> str:
        """What messages call it."""
        return self.given if isinstance(self.given, str) else "the exported program"


def read(source: Exported) -> Any:
    """The `ExportedProgram`. A `.pt2` file may hold pickled constants, which PyTorch runs: read only files you trust.

    Raises:
        FileFormatError: a file that can't be read, is damaged, or is of another kind, which is said.
    """
    if not isinstance(source.given, str):
        return source.given
    path = source.given
    _check_archive(path)
    import torch

    with _quiet():
        try:
            return torch.export.load(path)
        except Exception as error:  # the loader raises whatever its parts do
            raise FileFormatError(f"{path} is damaged, or of another version of PyTorch: {one_line(error)}") from error


def _check_archive(path: str) -> None:
    """Say of a file that is no .pt2 what it is."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except OSError as error:
        raise FileFormatError(f"cannot read {path}: {error.strerror}") from None
    except Exception:  # zipfile.BadZipFile, and others on damaged directories
        raise FileFormatError(f"{path} is damaged or no .pt2 file: it is no zip archive") from None
    inner = {name.partition("/")[2] or name for name in names}
    if "serialized_exported_program.json" in inner or any(n.startswith("models/") for n in inner):
        return
    if "constants.pkl" in inner and any(n.startswith("code/") for n in inner):
        what = "a TorchScript archive: give torch.export the module that it was made from"
    elif "data.pkl" in inner:
        what = "a checkpoint of torch.save, which holds tensors and no program: load it into its module"
    elif any("aotinductor" in n for n in inner):
        what = "a package of compiled code, which holds no graph: give the program it was compiled from"
    else:
        what = "a zip archive that holds no program of torch.export"
    raise FileFormatError(f"{path} is no exported program but {what}")


@contextmanager
def _quiet() -> Iterator[None]:
    """PyTorch logs a traceback of what it then raises."""
    loggers = [logging.getLogger(name) for name in ("torch.export", "torch.export.pt2_archive._package")]
    were = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, was in zip(loggers, were, strict=True):
            logger.disabled = was


def bind(program: Any, source: Exported) -> dict[Any, int]:
    """Sizes by symbol of the program's open dimensions. `dims` names them by symbol (`s31`), by an input's axis
    (`x.0`), or gives an input's whole shape (`x=3x8`).

    Raises:
        UnknownNameError: a name that is none of these. SpecError: a size out of the program's range, or two for one.
        CaptureError: a dimension without a size; says an example command.
    """
    shapes = _shapes(program)
    places: dict[Any, list[str]] = {}
    by_name: dict[str, Any] = {}
    for name, sizes in shapes.items():
        for axis, size in enumerate(sizes):
            if not isinstance(size, int):
                places.setdefault(size, []).append(name if name in _numbers(program) else f"{name}.{axis}")
    for symbol, where in places.items():
        by_name |= {str(symbol): symbol, **dict.fromkeys(where, symbol)}
    bound: dict[Any, int] = {}
    for name, size in source.dims.items():
        if name in by_name:
            _set(bound, by_name[name], size, name, program, source)
        elif name in shapes:
            _set_whole(bound, name, shapes[name], size, program, source)
        else:
            raise UnknownNameError(f"dimension of {source.shown}", name, [*by_name, *shapes])
    open_ = [symbol for symbol in places if symbol.is_Symbol and symbol not in bound]
    if open_:
        said = ", ".join(f"{places[s][0]} ({s}, {_range(program, s)})" for s in open_)
        example = " ".join(f"--dim {places[s][0]}={_example(program, s)}" for s in open_)
        raise CaptureError(f"{source.shown} has open dimensions: {said}; give their sizes, for example {example}")
    return bound


def _set_whole(
    bound: dict[Any, int], name: str, sizes: tuple[Any, ...], given: Any, program: Any, source: Exported
) -> None:
    shape = tuple(given) if isinstance(given, (list, tuple)) else (given,)
    shown = "x".join(str(n) for n in sizes)
    if len(shape) != len(sizes):
        raise SpecError(f"input {name!r} of {source.shown} has {len(sizes)} dimensions ({shown}), got {len(shape)}")
    for size, number in zip(sizes, shape, strict=True):
        if isinstance(size, int):
            if number != size:
                raise SpecError(f"input {name!r} of {source.shown} is {shown}: it can't be {'x'.join(map(str, shape))}")
        elif size.is_Symbol:
            _set(bound, size, number, name, program, source)


def _set(bound: dict[Any, int], symbol: Any, size: Any, name: str, program: Any, source: Exported) -> None:
    if isinstance(size, bool) or not isinstance(size, int):
        raise SpecError(f"expected a whole number as {name!r} of {source.shown}, got {size!r}")
    if not symbol.is_Symbol:
        raise SpecError(f"{name!r} of {source.shown} is {symbol}, which follows from other dimensions: give those")
    low, high = _bounds(program, symbol)
    if not low <= size <= high:
        raise SpecError(f"{name!r} of {source.shown} is {_range(program, symbol)}, got {size}")
    if bound.setdefault(symbol, size) != size:
        raise SpecError(f"{name!r} of {source.shown} is {symbol}, which is both {bound[symbol]} and {size}")


def _numbers(program: Any) -> set[str]:
    """Inputs that are numbers, not tensors."""
    import torch

    nodes = {n.name: n for n in program.graph.nodes if n.op == "placeholder"}
    user = program.graph_signature.user_inputs
    return {name for name in user if name in nodes and isinstance(nodes[name].meta.get("val"), torch.SymInt)}


def _shapes(program: Any) -> dict[str, tuple[Any, ...]]:
    """Each input's sizes; an open one is the expression it is."""
    import torch

    nodes = {n.name: n for n in program.graph.nodes if n.op == "placeholder"}
    shapes: dict[str, tuple[Any, ...]] = {}
    for name in program.graph_signature.user_inputs:
        value = nodes[name].meta.get("val") if name in nodes else None
        if isinstance(value, torch.Tensor):
            shapes[name] = tuple(n if isinstance(n, int) else _expression(n) for n in value.shape)
        elif isinstance(value, torch.SymInt):
            shapes[name] = (_expression(value),)
    return shapes


def _expression(size: Any) -> Any:
    expression = size.node.expr
    return int(expression) if expression.is_number else expression


def _bounds(program: Any, symbol: Any) -> tuple[float, float]:
    known = {str(s): r for s, r in program.range_constraints.items()}.get(str(symbol))
    return (0, float("inf")) if known is None else (_end(known.lower), _end(known.upper))


def _end(value: Any) -> float:
    """A range's end: PyTorch's own infinities are no numbers."""
    return int(value) if getattr(value, "is_Integer", isinstance(value, int)) else float("inf")


def _range(program: Any, symbol: Any) -> str:
    low, high = _bounds(program, symbol)
    return f"{low} to {high}" if high < 2**62 else f"{low} or more"


def _example(program: Any, symbol: Any) -> int:
    low, high = _bounds(program, symbol)
    return int(min(max(low, 2), high))
