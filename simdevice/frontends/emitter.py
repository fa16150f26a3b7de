"""Rows on their way into a trace, for front ends that read a graph: storages get serials, branches wait aside."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from simdevice.costs import Costs
from simdevice.records import PHASES, OpTable, Origin, Signature, TensorSpec, Trace, TraceBuilder

__all__ = ["Emitter", "Known", "Row"]

Row = tuple[int, tuple[int, ...], int, int]
"""Signature index, storage ids, phase, scope."""


@dataclass(frozen=True, slots=True)
class Known:
    """A tensor of a graph: what it is and which storage holds it."""

    spec: TensorSpec
    storage: int


class Emitter:
    """Collects rows. Lifecycle: 1. construct; 2. `storage` per fresh tensor, `add` per operator, rows of
    a branch inside `aside`, then `extend` with those that run; 3. `finish`.
    """

    def __init__(self, costs: Costs) -> None:
        self.costs = costs
        self.notes: list[str] = []
        self._builder = TraceBuilder(OpTable(costs))
        self._rows: list[Row] = []
        self._storages = 0

    @property
    def table(self) -> OpTable:
        """Signatures and costs so far."""
        return self._builder.table

    def storage(self) -> int:
        """The serial of a storage not seen before."""
        self._storages += 1
        return self._storages - 1

    def add(self, signature: Signature, tensors: Sequence[int], *, phase: int = 0, scope: str = "") -> None:
        """Append one call with its input and output storages."""
        index = self.table.intern(signature)
        self._rows.append((index, tuple(tensors), phase, self._builder.scope(scope)))

    def call(
        self,
        name: str,
        inputs: Sequence[Known],
        outputs: Sequence[Known],
        attributes: tuple[tuple[str, object], ...] = (),
        *,
        phase: int = 0,
        scope: str = "",
    ) -> None:
        """Append one call of tensors."""
        signature = Signature(name, tuple(t.spec for t in inputs), tuple(t.spec for t in outputs), attributes)
        self.add(signature, [t.storage for t in (*inputs, *outputs)], phase=phase, scope=scope)

    @contextmanager
    def aside(self) -> Iterator[list[Row]]:
        """Inside, rows go to the list given and not into the trace."""
        outer, self._rows = self._rows, []
        try:
            yield self._rows
        finally:
            self._rows = outer

    def extend(self, rows: Sequence[Row]) -> None:
        """Append rows that were collected aside."""
        self._rows.extend(rows)

    def weigh(self, rows: Sequence[Row]) -> tuple[int, int]:
        """FLOPs and bytes of some rows: what decides which branch is the costliest."""
        costs = [self.table.costs[index] for index, _, _, _ in rows]
        return sum(c.flops or 0 for c in costs), sum(c.bytes for c in costs)

    def note(self, text: str) -> None:
        """Say something about the whole trace, once."""
        if text not in self.notes:
            self.notes.append(text)

    def finish(self, origin: Origin) -> Trace:
        """The trace of all rows."""
        for index, tensors, phase, scope in self._rows:
            self._builder.add(index, tensors, phase=phase, scope=scope)
        return self._builder.finish(origin)


assert PHASES[0] == "forward"  # the default phase
