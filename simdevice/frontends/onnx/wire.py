"""Read a model file without its large contents, which stay where they are: the tensor says at which place of the file.

Knows protobuf's wire format (https://protobuf.dev/programming-guides/encoding) and which messages hold others. What is
copied is not checked: protobuf does, when it parses the rest.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from typing import NamedTuple

from google.protobuf.descriptor import Descriptor  # type: ignore[import-untyped]
from onnx import ModelProto, TensorProto

__all__ = ["LARGE", "skimmed"]

LARGE = 1 << 16
"""Bytes of a tensor's contents beyond which a walk can't want them."""

_AS_RAW = frozenset(("raw_data", "float_data", "double_data"))
"""Fields that hold the elements as they are in memory; integers are of varying length."""

_CONTENTS = _AS_RAW | {"int32_data", "int64_data", "uint64_data"}

_VARINT, _EIGHT, _SIZED, _FOUR = 0, 1, 2, 5
"""Wire types: what tells where a field ends."""


def skimmed(path: str | os.PathLike[str], *, to_run: bool) -> bytes:
    """The model's message, as long as everything but its large contents. `to_run`: what ONNX Runtime takes from a file,
    hence initializers alone may stay behind.

    Raises:
        OSError: the file can't be read.
        ValueError: it is no message of this kind, or empty.
    """
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
        try:
            pieces = _Skimmer(view, os.path.basename(path), to_run=to_run).message(ModelProto.DESCRIPTOR, 0, len(view))
        except (IndexError, RecursionError):
            raise ValueError(f"{path} ends inside a field, or has too many of them in each other") from None
        return b"".join(pieces)


class _Field(NamedTuple):
    number: int
    wire: int
    start: int
    """Where its key stands."""
    body: int
    """Where its contents begin."""
    end: int


class _Skimmer:
    """One pass over a file that copies messages, those inside larger than LARGE in pieces."""

    def __init__(self, view: mmap.mmap, location: str, *, to_run: bool) -> None:
        self._view, self._location, self._to_run = view, location, to_run

    def message(self, kind: Descriptor, start: int, end: int, *, is_initializer: bool = False) -> list[bytes]:
        """The message's bytes between these places."""
        if kind is TensorProto.DESCRIPTOR:
            return self._tensor(start, end, is_initializer=is_initializer)
        pieces: list[bytes] = []
        copied = start
        for field in self._fields(start, end):
            inside = kind.fields_by_number.get(field.number)
            if field.wire != _SIZED or field.end - field.body <= LARGE or inside is None or inside.message_type is None:
                continue
            is_initializer = inside.name == "initializer"
            parts = self.message(inside.message_type, field.body, field.end, is_initializer=is_initializer)
            key = _varint(field.number << 3 | _SIZED) + _varint(sum(map(len, parts)))
            pieces += [self._view[copied : field.start], key, *parts]
            copied = field.end
        return [*pieces, self._view[copied:end]]

    def _tensor(self, start: int, end: int, *, is_initializer: bool) -> list[bytes]:
        """All but its contents; where they are elements as in memory, it says where they stand."""
        names = TensorProto.DESCRIPTOR.fields_by_number
        fields = [(names[f.number].name, f) for f in self._fields(start, end) if f.number in names]
        large = [(name, f) for name, f in fields if name in _CONTENTS and f.wire == _SIZED and f.end - f.body > LARGE]
        stays = len(large) == 1 and large[0][0] in _AS_RAW and all(name != "data_location" for name, _ in fields)
        if not large or (self._to_run and not (stays and is_initializer)):
            return [self._view[start:end]]
        place = TensorProto()
        if stays:
            ((_, contents),) = large
            place.data_location = TensorProto.EXTERNAL
            entries = {"location": self._location, "offset": contents.body, "length": contents.end - contents.body}
            for key, value in entries.items():
                place.external_data.add(key=key, value=str(value))
        pieces, copied = [], start
        for _, field in large:
            pieces.append(self._view[copied : field.start])
            copied = field.end
        return [*pieces, self._view[copied:end], place.SerializeToString()]

    def _fields(self, start: int, end: int) -> Iterator[_Field]:
        at = start
        while at < end:
            key, body = self._number(at)
            wire = key & 7
            if wire == _VARINT:
                _, after = self._number(body)
            elif wire == _SIZED:
                size, body = self._number(body)
                after = body + size
            elif wire in (_EIGHT, _FOUR):
                after = body + (8 if wire == _EIGHT else 4)
            else:
                raise ValueError(f"wire type {wire} at byte {at:,}")
            yield _Field(key >> 3, wire, at, body, after)
            at = after
        if at != end:
            raise ValueError(f"a field ends at byte {at:,}, its message at {end:,}")

    def _number(self, at: int) -> tuple[int, int]:
        """A varint, and where the next byte stands."""
        value = shift = 0
        while True:
            byte = self._view[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value, at
            shift += 7
            if shift > 63:
                raise ValueError(f"a number without an end at byte {at:,}")


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*encoded, value))
