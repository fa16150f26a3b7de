"""One program at many sizes: traces that have the same rows, and shapes that follow from the sizes.

A layer's rows repeat and its shapes say how long the input is, so a program asked with 64 lengths has 64 traces of one
structure. A family is fitted to the traces at the corners of a box of sizes; every number in it is a polynomial of
degree one in each size (batch x tokens is, tokens squared is not).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from simdevice.records.op import Signature, TensorSpec
from simdevice.records.trace import Trace

__all__ = ["Box", "Family"]


class _NoFamily(Exception):
    """Two traces differ by more than numbers, or a number is no whole one."""


@dataclass(frozen=True, slots=True)
class Box:
    """Sizes between `low` and `high`, both included; an axis of one size is no axis of the box."""

    low: tuple[int, ...]
    high: tuple[int, ...]

    @classmethod
    def around(cls, points: Sequence[tuple[int, ...]]) -> Box:
        """The smallest box that holds the points."""
        return cls(tuple(map(min, zip(*points, strict=True))), tuple(map(max, zip(*points, strict=True))))

    def corners(self) -> list[tuple[int, ...]]:
        """Each once: 2 per axis that has two ends."""
        ends = [(low, high) if low < high else (low,) for low, high in zip(self.low, self.high, strict=True)]
        return list(itertools.product(*ends))

    def weights(self, point: tuple[int, ...]) -> tuple[list[int], int]:
        """The share of each corner in a point, over their common denominator: linear interpolation along each axis."""
        shares = [
            (high - at, at - low) if low < high else (1,)
            for at, low, high in zip(point, self.low, self.high, strict=True)
        ]
        spans = (high - low for low, high in zip(self.low, self.high, strict=True) if low < high)
        return [math.prod(parts) for parts in itertools.product(*shares)], math.prod(spans)


@dataclass(frozen=True)
class Family:
    """Rows that all members share, and the signatures of each row at the corners of the box."""

    box: Box
    corners: tuple[Trace, ...]

    @classmethod
    def of(cls, box: Box, trace_at: Callable[[tuple[int, ...]], Trace]) -> Family | None:
        """The family of the traces at the corners; None where they differ by more than numbers. Calls `trace_at` once
        per corner."""
        corners = tuple(trace_at(corner).compact() for corner in box.corners())
        first = corners[0]
        for other in corners[1:]:
            same = len(first) == len(other) and first.scopes == other.scopes
            if not same or replace(first.rows, signature=other.rows.signature) != other.rows:
                return None
        return cls(box, corners)

    def at(self, point: tuple[int, ...]) -> Trace | None:
        """The member at these sizes, its origin that of the first corner; None where a number would not be whole, or
        what differs between the corners is no number."""
        first = self.corners[0]
        used, where = np.unique(
            np.stack([corner.rows.signature for corner in self.corners]), axis=1, return_inverse=True
        )
        weights, whole = self.box.weights(point)
        table = first.table.subset(())
        try:
            signatures = [
                _signature([c.table.signatures[i] for c, i in zip(self.corners, column, strict=True)], weights, whole)
                for column in used.T.tolist()
            ]
        except _NoFamily:
            return None
        numbers = np.array([table.intern(signature) for signature in signatures], np.int32)
        rows = replace(first.rows, signature=numbers[where.reshape(-1)] if len(numbers) else first.rows.signature)
        return Trace(table, rows, first.scopes, first.origin).compact()


def _signature(corners: Sequence[Signature], weights: Sequence[int], whole: int) -> Signature:
    first = corners[0]
    if all(corner == first for corner in corners):
        return first
    names = {(corner.name, len(corner.inputs), len(corner.outputs)) for corner in corners}
    if len(names) > 1:
        raise _NoFamily

    def specs(side: str) -> tuple[TensorSpec, ...]:
        return tuple(_spec(column, weights, whole) for column in zip(*(getattr(c, side) for c in corners), strict=True))

    attributes = _value([corner.attributes for corner in corners], weights, whole)
    return Signature(first.name, specs("inputs"), specs("outputs"), attributes)


def _spec(corners: Sequence[TensorSpec], weights: Sequence[int], whole: int) -> TensorSpec:
    first = corners[0]
    if {(c.dtype, c.is_weight) for c in corners} != {(first.dtype, first.is_weight)}:
        raise _NoFamily
    return TensorSpec(_value([tuple(c.shape) for c in corners], weights, whole), first.dtype, first.is_weight)


def _value(corners: Sequence[Any], weights: Sequence[int], whole: int) -> Any:
    """A value of an attribute or a shape at a point: whole numbers follow the sizes, everything else is what it is."""
    first = corners[0]
    kinds = {type(corner) for corner in corners}
    if kinds == {int}:
        total, rest = divmod(sum(w * c for w, c in zip(weights, corners, strict=True)), whole)
        if rest:
            raise _NoFamily
        return total
    if kinds == {tuple}:
        if len({len(corner) for corner in corners}) > 1:
            raise _NoFamily
        return tuple(_value(column, weights, whole) for column in zip(*corners, strict=True))
    if any(corner != first for corner in corners):
        raise _NoFamily
    return first
