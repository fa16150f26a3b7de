"""Open dimensions of a model's inputs: their names, binding them, and the command that binds them."""

from __future__ import annotations

import ast
import operator
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from onnx import GraphProto, TensorShapeProto, TypeProto, ValueInfoProto

from simdevice.errors import CaptureError, OpenDimensionsError, SpecError, UnknownNameError
from simdevice.frontends.onnx.values import dtype_name

__all__ = ["bind", "sized", "sizes_of"]

Shape = tuple[int, ...]


def bind(
    graph: GraphProto, dims: Mapping[str, Any], settled_by: Mapping[str, Shape], path: str
) -> dict[str, Shape | None]:
    """Each input's shape; None for one that is no tensor. Symbols are the dimensions' own names, and `input.axis`
    where they have none; a whole shape may be bound under the input's name. Inputs in `settled_by` bring theirs.

    Raises:
        UnknownNameError: a dimension that doesn't exist.
        SpecError: a size that can't be, or contradicts the file.
        OpenDimensionsError: a dimension that is open still; says the command that binds all of them.
    """
    symbols = _symbols(graph, settled_by)
    names = {n for shape in symbols.values() for dim in shape if isinstance(dim, str) for n in _names(dim)}
    inputs = [value.name for value in graph.input if value.type.HasField("tensor_type")]
    for name, size in dims.items():
        if name not in names and name not in inputs:
            raise UnknownNameError(f"dimension of {path}", name, names or inputs)
        _check_size(name, size, whole_shape=name in inputs)
    sizes = _with_shapes(symbols, dims)
    bound: dict[str, Shape | None] = {}
    missing: dict[str, str] = {}
    for value in graph.input:
        if not value.type.HasField("tensor_type"):
            bound[value.name] = None
        elif value.name in settled_by:
            bound[value.name] = settled_by[value.name]
        elif value.name in dims:
            bound[value.name] = _shape(dims[value.name])
        elif value.name not in symbols:
            missing[value.name] = "1x3x224x224"
        else:
            shape = symbols[value.name]
            for axis, dim in enumerate(shape):
                for name in _names(dim) if isinstance(dim, str) else ():
                    if name not in sizes:
                        missing.setdefault(name, _example(name, axis, len(shape)))
            if not missing:
                bound[value.name] = tuple(_size(d, sizes) if isinstance(d, str) else d for d in shape)
    if missing:
        raise OpenDimensionsError(os.fspath(path), missing)
    _check_types(graph.input, path)
    return bound


def sizes_of(graph: GraphProto, bound: Mapping[str, Shape | None]) -> dict[str, int]:
    """What each dimension's name stands for, once the inputs have their shapes."""
    sizes: dict[str, int] = {}
    for value in graph.input:
        for dim, size in zip(value.type.tensor_type.shape.dim, bound.get(value.name) or (), strict=False):
            if dim.dim_param:
                sizes.setdefault(dim.dim_param.strip(), size)
    return sizes


def sized(proto: TypeProto, sizes: Mapping[str, int]) -> TypeProto:
    """A type with the dimensions that these names settle, computed ones ("past + new") included."""
    own = TypeProto()
    own.CopyFrom(proto)
    for dim in own.tensor_type.shape.dim if own.HasField("tensor_type") else ():
        name = dim.dim_param.strip()
        if name and all(part in sizes for part in _names(name)):
            dim.dim_value = max(_size(name, sizes), 0)
    return own


_LARGEST = 2**63 - 1


def _check_size(name: str, size: Any, *, whole_shape: bool) -> None:
    """Whether a size, or a whole shape, can be one."""
    if not whole_shape and isinstance(size, (tuple, list)):
        raise SpecError(f"expected one size for dimension {name!r}, got {size!r}")
    for one in size if isinstance(size, (tuple, list)) else (size,):
        if not isinstance(one, int) or isinstance(one, bool) or not 1 <= one <= _LARGEST:
            raise SpecError(f"expected a whole number from 1 to 2^63 - 1 for dimension {name!r}, got {one!r}")


def _shape(size: Any) -> Shape:
    return (size,) if isinstance(size, int) else tuple(size)


def _with_shapes(symbols: Mapping[str, tuple[int | str, ...]], dims: Mapping[str, Any]) -> dict[str, int]:
    """Sizes by dimension, those included that a whole shape gives.

    Raises:
        SpecError: a shape that contradicts the file, or another binding.
    """
    sizes = {name: size for name, size in dims.items() if name not in symbols and isinstance(size, int)}
    for name in dims.keys() & symbols.keys():
        shape, declared = _shape(dims[name]), symbols[name]
        shown = "x".join(map(str, shape))
        if len(shape) != len(declared):
            raise SpecError(f"input {name!r} has {len(declared)} dimensions, {_shown(declared)}: got {shown}")
        for size, dim in zip(shape, declared, strict=True):
            if isinstance(dim, int) and dim != size:
                raise SpecError(f"input {name!r} is {_shown(declared)}: got {shown}")
            if isinstance(dim, str) and sizes.setdefault(dim, size) != size:
                raise SpecError(f"dimension {dim!r} can't be {sizes[dim]} and {size}: input {name!r} is {shown}")
    return sizes


def _shown(declared: tuple[int | str, ...]) -> str:
    return "x".join(map(str, declared))


_OPERATIONS: dict[type, Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.FloorDiv: operator.floordiv,
    ast.Mult: operator.mul,
    ast.Sub: operator.sub,
}


def _formula(dim: str) -> ast.expr | None:
    """`past + seq` as arithmetic on names; None for a name that is none."""
    try:
        body = ast.parse(dim, mode="eval").body
    except (SyntaxError, ValueError):
        return None
    allowed = (ast.BinOp, ast.Name, ast.Constant, ast.Load, *_OPERATIONS)
    parts = list(ast.walk(body))
    fits = all(isinstance(p, allowed) for p in parts) and isinstance(body, ast.BinOp)
    whole = all(isinstance(p.value, int) for p in parts if isinstance(p, ast.Constant))
    return body if fits and whole else None


def _names(dim: str) -> list[str]:
    """What must be bound for a dimension: itself, or the names it is computed from."""
    formula = _formula(dim)
    if formula is None:
        return [dim]
    return [part.id for part in ast.walk(formula) if isinstance(part, ast.Name)]


def _size(dim: str, dims: Mapping[str, Any]) -> int:
    if dim in dims:
        return int(dims[dim])
    formula = _formula(dim)
    try:
        size = int(dims[dim]) if formula is None else _computed(formula, dims)
    except ZeroDivisionError:
        raise SpecError(f"dimension {dim!r} divides by zero") from None
    if not 0 <= size <= _LARGEST:
        raise SpecError(f"dimension {dim!r} is {size}, with {', '.join(f'{n} = {dims[n]}' for n in _names(dim))}")
    return size


def _computed(part: ast.AST, dims: Mapping[str, Any]) -> int:
    if isinstance(part, ast.BinOp):
        return _OPERATIONS[type(part.op)](_computed(part.left, dims), _computed(part.right, dims))
    return int(dims[part.id]) if isinstance(part, ast.Name) else int(part.value)  # type: ignore[attr-defined]


def _symbols(graph: GraphProto, settled_by: Mapping[str, Shape]) -> dict[str, tuple[int | str, ...]]:
    """Each ranked input's shape, open dimensions by name. A name that a given input settles is settled everywhere."""
    shapes: dict[str, tuple[int | str, ...]] = {}
    settled: dict[str, int] = {}
    for value in graph.input:
        tensor = value.type.tensor_type
        if value.type.HasField("tensor_type") and tensor.HasField("shape"):
            shapes[value.name] = tuple(_dim(d, value.name, axis) for axis, d in enumerate(tensor.shape.dim))
            for name, size in zip(shapes[value.name], settled_by.get(value.name, ()), strict=False):
                if isinstance(name, str):
                    settled[name] = size
    return {
        name: tuple(settled.get(d, d) if isinstance(d, str) else d for d in shape) for name, shape in shapes.items()
    }


def _dim(dim: TensorShapeProto.Dimension, owner: str, axis: int) -> int | str:
    """A number, or a name: the dimension's own where it tells dimensions apart ("?" doesn't)."""
    if dim.HasField("dim_value") and dim.dim_value >= 0:
        return int(dim.dim_value)
    name = str(dim.dim_param).strip()
    return name if name.strip("?*-_ ") else f"{owner}.{axis}"


def _example(name: str, axis: int, rank: int) -> str:
    """A size to start from: one item, 224 pixels, 128 steps of anything else."""
    lower = name.lower()
    if "batch" in lower:
        return "1"
    if "height" in lower or "width" in lower or (rank == 4 and axis >= 2):
        return "224"
    lengthy = any(part in lower for part in ("seq", "len", "time", "token", "sample", "step", "frame"))
    return "128" if lengthy or (axis and axis == rank - 1) else "1"


def _check_types(inputs: Sequence[ValueInfoProto], path: str) -> None:
    for value in inputs:
        if value.type.HasField("tensor_type") and not dtype_name(value.type.tensor_type.elem_type):
            raise CaptureError(f"{path}: input {value.name!r} has no element type")
