"""A tensor's contents: as many as its type says, in the model's file or in another beside it."""

from __future__ import annotations

import math
import os
from pathlib import Path, PurePath

from onnx import TensorProto

from simdevice.errors import FileFormatError
from simdevice.frontends.onnx.values import SMALL, dtype_name
from simdevice.records.dtypes import BITS

__all__ = ["check", "fetch"]


def check(tensor: TensorProto, path: str | os.PathLike[str]) -> None:
    """Contents that are here are as many as the tensor's type says; it may have none.

    Raises:
        FileFormatError: they are not, or there is no such type.
    """
    if any(n < 0 for n in tensor.dims):
        raise FileFormatError(f"{path} is damaged: tensor {tensor.name!r} has dimensions {list(tensor.dims)}")
    if not dtype_name(tensor.data_type):
        raise FileFormatError(f"{path} is damaged: tensor {tensor.name!r} has element type {tensor.data_type}")
    held, expected = len(tensor.raw_data), _bytes(tensor)
    if held and expected is not None and held != expected:
        raise FileFormatError(
            f"{path} is damaged: tensor {tensor.name!r} holds {held:,} bytes, its type needs {expected:,}"
        )


def fetch(tensor: TensorProto, path: Path) -> None:
    """Read the contents of a small tensor that is stored outside of its message; of a large one look only that they
    are there.

    1. `location` is a path in the model's folder, as ONNX's own rule has it (docs/ExternalData.md): nothing outside it
       is looked at. A link counts as where it leads, and the model's own link leads to its folder too.
    2. `length` is that of the type; without one, the type says it.

    Raises:
        FileFormatError: another file than ONNX allows, or too short, or of another length than the type's.
    """
    said = {entry.key: entry.value for entry in tensor.external_data}
    if not all(isinstance(text, str) for text in (*said, *said.values(), tensor.name)):  # protobuf then gives bytes
        raise FileFormatError(f"{path} is damaged: a name in it is no UTF-8")
    location = said.get("location", "")
    offset, length = (_number(said, key, tensor, path) for key in ("offset", "length"))
    expected = _bytes(tensor)
    if expected is None:
        raise FileFormatError(f"{path} is damaged: tensor {tensor.name!r} holds text in another file")
    if length is not None and length != expected:
        raise FileFormatError(
            f"{path} is damaged: tensor {tensor.name!r} holds {length:,} bytes, its type needs {expected:,}"
        )
    place = _place(location, tensor, path)
    start, end = offset or 0, (offset or 0) + expected
    try:
        size = place.stat().st_size
    except (OSError, ValueError):
        raise FileFormatError(
            f"{path} keeps {tensor.name!r} in {location!r}, which is missing from {path.parent}"
        ) from None
    if size < end:
        raise FileFormatError(f"{path}: {place} has {size:,} bytes, but {tensor.name!r} ends at {end:,}: damaged")
    if math.prod(tensor.dims) > SMALL:
        return
    try:
        with open(place, "rb") as file:
            file.seek(start)
            contents = file.read(expected)
    except OSError as error:
        raise FileFormatError(f"{path} keeps {tensor.name!r} in {place}: {error.strerror or error}") from None
    if len(contents) != expected:
        raise FileFormatError(f"{path}: {place} has no more bytes for {tensor.name!r} than {len(contents):,}: damaged")
    tensor.raw_data = contents
    tensor.ClearField("external_data")
    tensor.ClearField("data_location")


def _place(location: str, tensor: TensorProto, path: Path) -> Path:
    parts = PurePath(location)
    place = path.parent / parts
    is_inside = bool(location) and not parts.is_absolute() and ".." not in parts.parts
    if is_inside:
        try:
            leads_to = place.resolve()
            folders = {path.parent.resolve(), path.resolve().parent}
        except (OSError, RuntimeError, ValueError):  # links in a circle, a name with a zero in it
            is_inside = False
        else:
            is_inside = any(leads_to.is_relative_to(folder) for folder in folders)
    if not is_inside:
        raise FileFormatError(
            f"{path} keeps {tensor.name!r} in {location!r}: expected a file in the model's own folder, {path.parent}"
        )
    return place


def _number(said: dict[str, str], key: str, tensor: TensorProto, path: Path) -> int | None:
    if key not in said:
        return None
    text = said[key]
    if not (text.isascii() and text.isdigit()) or len(text) > 19:
        raise FileFormatError(f"{path} is damaged: tensor {tensor.name!r} has {key} {text[:40]!r}, expected a number")
    return int(text)


def _bytes(tensor: TensorProto) -> int | None:
    """Bytes of the elements, four- and two-bit ones packed; None for text."""
    bits = BITS.get(dtype_name(tensor.data_type), 0)
    return -(-math.prod(tensor.dims) * bits // 8) if bits else None
