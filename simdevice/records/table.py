"""Signatures interned once, with the cost of each: what all rows of a trace share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from simdevice.errors import SizeError
from simdevice.records.op import CATEGORIES, Cost, Signature

__all__ = ["OpTable", "check_sum"]

Int64 = NDArray[np.int64]


class OpTable:
    """A growing list of signatures and their costs; a row of a trace names one by its index.

    `cost_of` is asked once per new signature (front ends pass the cost registry's function).
    `derived` is where later stages keep what they computed per signature, under an object of theirs
    (a device, a class) and for as long as that lives.
    """

    def __init__(self, cost_of: Callable[[Signature], Cost]) -> None:
        self.signatures: list[Signature] = []
        self.costs: list[Cost] = []
        self._cost_of = cost_of
        self._index: dict[Signature, int] = {}
        self._columns: dict[str, Int64] = {}
        self.derived: WeakKeyDictionary[object, Any] = WeakKeyDictionary()

    def __len__(self) -> int:
        return len(self.signatures)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, OpTable):
            return NotImplemented
        return self.signatures == other.signatures and self.costs == other.costs

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __getstate__(self) -> dict[str, Any]:
        """What stages derived stays behind: it belongs to objects of this process."""
        return {**self.__dict__, "derived": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, derived=WeakKeyDictionary())

    def intern(self, signature: Signature) -> int:
        """The signature's index; a new one is costed and appended."""
        index = self._index.get(signature)
        if index is None:
            index = self.append(signature)
        return index

    def append(self, signature: Signature, cost: Cost | None = None) -> int:
        """Add a signature that is known to be new (with its cost where a file already holds it).

        Raises:
            SizeError: a tensor's bytes, or a number of its cost, beyond 2^63 - 1.
        """
        if cost is None:
            cost = self._cost_of(signature)  # first: a rule that raises must not leave a signature without a cost
        _check_fits(signature, cost)
        index = self._index[signature] = len(self.signatures)
        self.signatures.append(signature)
        self.costs.append(cost)
        return index

    def subset(self, indices: Iterable[int]) -> OpTable:
        """A table of the given signatures only, in the given order, costs kept."""
        table = OpTable(self._cost_of)
        for index in indices:
            table.append(self.signatures[index], self.costs[index])
        return table

    def column(self, name: str) -> Int64:
        """One int64 per signature: `flops` (-1: unknown), `bytes_read`, `bytes_written`,
        `weight_bytes`, `category` (index into CATEGORIES), `inputs`, `outputs` or `arity`."""
        known = self._columns.get(name)
        done = 0 if known is None else len(known)
        if known is None or done < len(self):
            fresh = np.fromiter((self._value(name, i) for i in range(done, len(self))), np.int64)
            known = fresh if known is None else np.concatenate([known, fresh])
            self._columns[name] = known
        return known

    def _value(self, name: str, index: int) -> int:
        signature, cost = self.signatures[index], self.costs[index]
        if name == "category":
            return CATEGORIES.index(cost.category)
        if name == "flops":
            return -1 if cost.flops is None else cost.flops
        if name == "arity":
            return signature.arity
        if name in ("inputs", "outputs"):
            return len(getattr(signature, name))
        value: int = getattr(cost, name)
        return value


_MOST = 2**63 - 1


def _check_fits(signature: Signature, cost: Cost) -> None:
    """Columns and engines count in int64, and NumPy wraps around without a word."""
    for tensor in (*signature.inputs, *signature.outputs):
        if tensor.nbytes > _MOST:
            shape = "x".join(map(str, tensor.shape))
            raise SizeError(f"{signature.name}: a tensor {shape} {tensor.dtype} has more than 2^63 - 1 bytes")
    numbers = {"FLOPs": cost.flops or 0, "bytes to read": cost.bytes_read, "bytes to write": cost.bytes_written}
    for unit, number in numbers.items():
        if number > _MOST:
            shapes = ", ".join("x".join(map(str, tensor.shape)) for tensor in signature.inputs)
            raise SizeError(f"{signature.name}({shapes}): {number:.3g} {unit} are more than 2^63 - 1")


def check_sum(values: Int64, times: Int64, what: str) -> None:
    """Raises SizeError where values that are not negative, each so many times, add up to more than an int64 holds."""
    if float(values.max(initial=0)) * float(times.sum()) <= _MOST:
        return
    if sum(value * count for value, count in zip(values.tolist(), times.tolist(), strict=True)) > _MOST:
        raise SizeError(f"all operators' {what} add up to more than 2^63 - 1")
