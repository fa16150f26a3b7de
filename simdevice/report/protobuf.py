"""Protobuf messages by the hundred thousand, as NumPy columns: one row per message, no object per message.

Knows the wire format (protobuf.dev, "Encoding") and no message type.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Fields", "chosen", "message", "same", "varint"]

Int64 = NDArray[np.int64]

SEVEN_BITS = np.arange(0, 63, 7)
"""Shifts of a varint's digits, lowest first; nine hold every number that is not negative."""


@dataclass(frozen=True)
class Fields:
    """Bytes of many messages: a row each, of which the bytes with `used` set count, in order."""

    data: NDArray[np.uint8]
    used: NDArray[np.bool_]

    def __add__(self, other: Fields) -> Fields:
        return Fields(np.hstack([self.data, other.data]), np.hstack([self.used, other.used]))

    def to_bytes(self) -> bytes:
        """All rows, one after the other."""
        return self.data[self.used].tobytes()


def same(data: bytes, rows: int) -> Fields:
    """The same bytes in every row."""
    return chosen([data], np.zeros(rows, np.int64))


def chosen(options: Sequence[bytes], which: Int64) -> Fields:
    """In row i the bytes `options[which[i]]`."""
    lengths = np.array([len(option) for option in options])
    padded = b"".join(option.ljust(lengths.max(), b"\0") for option in options)
    table = np.frombuffer(padded, np.uint8).reshape(len(options), -1)
    return Fields(table[which], np.arange(table.shape[1]) < lengths[which, None])


def varint(number: int, values: Int64) -> Fields:
    """Field `number` as an integer, one value per row, none negative."""
    return same(_digits(np.array([number << 3])).to_bytes(), len(values)) + _digits(values)


def message(number: int, inner: Fields) -> Fields:
    """Field `number` as a message of these fields."""
    tag = same(_digits(np.array([number << 3 | 2])).to_bytes(), len(inner.data))
    return tag + _digits(inner.used.sum(axis=1)) + inner


def _digits(values: Int64) -> Fields:
    """Seven bits per byte, lowest first; the high bit says that another follows."""
    widest = int(values.max(initial=0)).bit_length()
    rest = values[:, None] >> SEVEN_BITS[: max(-(-widest // 7), 1)]
    used = rest > 0
    used[:, 0] = True
    more = np.zeros_like(used)
    more[:, :-1] = used[:, 1:]
    return Fields((rest & 0x7F | more << 7).astype(np.uint8), used)
