"""Rows on their way into a trace, for front ends that read a graph: storages get serials, branches wait aside."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from simdevice.costs import Costs
from simdevice.records import PHASES, OpTable, Origin, Signature, TensorSpec, Trace, TraceBuilder

__all__ = ["Branch", "Emitter", "Known", "Row"]

Row = tuple[int, tuple[int, ...], int, int]
"""Signature index, storage ids, phase, scope."""


@dataclass(frozen=True, slots=True)
class Known:
    """A tensor of a graph: what it is and which storage holds it."""

    spec: TensorSpec
    storage: int


@dataclass(frozen=True, slots=True)
class Branch:
    """Rows and notes that may not become part of the trace."""

    rows: list[Row]
    notes: list[str]


class Emitter:
    """Collects rows. Lifecycle: 1. construct; 2. `storage` per fresh tensor, `add` per operator, rows of
    a branch inside `aside`, then `extend` with those that run; 3. `finish`.
    """

    def __init__(self, costs: Costs) -> None:
        self.costs = costs
        self.notes: list[str] = []
        self._builder = TraceBuilder(OpTable(costs))
        self._rows: list[Row] = []
        self._open: dict[Signature, int] = {}
        self._paths: dict[int, str] = {}
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
        self._rows.append((index, tuple(tensors), phase, self._scope(scope)))

    def _scope(self, path: str) -> int:
        number = self._builder.scope(path)
        self._paths[number] = path
        return number

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

    def unresolved(
        self, name: str, inputs: Sequence[Known], outputs: Sequence[Known], reason: str, *, scope: str = ""
    ) -> None:
        """Append a call of which some tensor has no shape: an unknown operator, charged for the tensors that have."""
        signature = Signature(
            name, tuple(t.spec for t in inputs), tuple(t.spec for t in outputs), (("unresolved", reason),)
        )
        index = self._open.get(signature)
        if index is None:
            cost = self.costs.unknown(signature, reason)
            index = self._open[signature] = self.table.append(signature, cost)
        tensors = tuple(t.storage for t in (*inputs, *outputs))
        self._rows.append((index, tensors, 0, self._scope(scope)))

    def is_free(
        self, name: str, inputs: Sequence[Known], outputs: Sequence[Known], attributes: tuple[tuple[str, object], ...]
    ) -> bool:
        """Whether such a call costs nothing: its result is its input, looked at otherwise."""
        signature = Signature(name, tuple(t.spec for t in inputs), tuple(t.spec for t in outputs), attributes)
        return self.table.costs[self.table.intern(signature)].category == "view"

    @contextmanager
    def aside(self) -> Iterator[Branch]:
        """Inside, rows and notes go to the branch given and not into the trace."""
        outer, branch = (self._rows, self.notes), Branch([], [])
        self._rows, self.notes = branch.rows, branch.notes
        try:
            yield branch
        finally:
            self._rows, self.notes = outer

    def extend(self, branch: Branch) -> None:
        """Take over what was collected aside."""
        self._rows.extend(branch.rows)
        for text in branch.notes:
            self.note(text)

    def weigh(self, branch: Branch) -> tuple[int, int]:
        """FLOPs and bytes of a branch: what decides which is the costliest."""
        costs = [self.table.costs[index] for index, _, _, _ in branch.rows]
        return sum(c.flops or 0 for c in costs), sum(c.bytes for c in costs)

    def calls(self) -> Iterator[tuple[Signature, tuple[int, ...], int, str]]:
        """The rows so far in words: signature, storages, phase, scope."""
        for index, tensors, phase, scope in self._rows:
            yield self.table.signatures[index], tensors, phase, self._paths[scope]

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
