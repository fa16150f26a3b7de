"""Rows on their way into a trace, for front ends that read a graph: storages get serials, branches wait aside."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np

from simdevice.costs import Costs
from simdevice.records import PHASES, Node, NodeMap, OpTable, Origin, Signature, TensorSpec, Trace, TraceBuilder
from simdevice.records.nodes import STATES

__all__ = ["Branch", "Emitter", "Known", "Marks", "Row", "settled", "stronger"]

Row = tuple[int, tuple[int, ...], int, int, int]
"""Signature index, storage ids, phase, scope, number of the node."""

Marks = dict[int, tuple[int, str]]
"""What became of a node: a rank in STATES and a reason, by the node's number."""


@dataclass(frozen=True, slots=True)
class Known:
    """A tensor of a graph: what it is and which storage holds it."""

    spec: TensorSpec
    storage: int


@dataclass(frozen=True, slots=True)
class Branch:
    """Rows, notes and what became of nodes, which may not become part of the trace."""

    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    marks: Marks = field(default_factory=dict)


class Emitter:
    """Collects rows. Lifecycle: 1. construct; 2. `storage` per fresh tensor, `add` per operator, rows of
    a branch inside `aside`, then `extend` with those that run; 3. `finish`, and `nodes` for where rows came from.
    What is added inside `at` belongs to that node.
    """

    def __init__(self, costs: Costs) -> None:
        self.costs = costs
        self.notes: list[str] = []
        self._builder = TraceBuilder(OpTable(costs))
        self._rows: list[Row] = []
        self._marks: Marks = {}
        self._node = -1
        self._open: dict[Signature, int] = {}
        self._paths: dict[int, str] = {}
        self._storages = 0

    @property
    def table(self) -> OpTable:
        """Signatures and costs so far."""
        return self._builder.table

    @property
    def node(self) -> int:
        """The number of the node that is being taken; -1 outside all."""
        return self._node

    @property
    def marks(self) -> Marks:
        """What became of the nodes taken so far."""
        return self._marks

    @property
    def storages(self) -> int:
        """How many storages there are: the serial of the next one."""
        return self._storages

    @property
    def size(self) -> int:
        """How many rows there are where rows go now."""
        return len(self._rows)

    def rows(self, first: int) -> list[Row]:
        """Those from the one with this number on."""
        return self._rows[first:]

    def extend_rows(self, rows: Sequence[Row]) -> None:
        """Append rows of operators that have been called before."""
        self._rows.extend(rows)

    def reserve(self, count: int) -> int:
        """The serial of the first of so many storages not seen before."""
        self._storages += count
        return self._storages - count

    def storage(self) -> int:
        """The serial of a storage not seen before."""
        return self.reserve(1)

    def add(self, signature: Signature, tensors: Sequence[int], *, phase: int = 0, scope: str = "") -> None:
        """Append one call with its input and output storages."""
        index = self.table.intern(signature)
        self._rows.append((index, tuple(tensors), phase, self._scope(scope), self._node))
        self.mark("free" if self.table.costs[index].category == "view" else "rows")

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
        self._rows.append((index, tensors, 0, self._scope(scope), self._node))
        self.mark("unresolved", reason)

    def is_free(
        self, name: str, inputs: Sequence[Known], outputs: Sequence[Known], attributes: tuple[tuple[str, object], ...]
    ) -> bool:
        """Whether such a call costs nothing: its result is its input, looked at otherwise."""
        signature = Signature(name, tuple(t.spec for t in inputs), tuple(t.spec for t in outputs), attributes)
        return self.table.costs[self.table.intern(signature)].category == "view"

    @contextmanager
    def aside(self) -> Iterator[Branch]:
        """Inside, rows and notes go to the branch given and not into the trace."""
        outer, branch = (self._rows, self.notes, self._marks), Branch()
        self._rows, self.notes, self._marks = branch.rows, branch.notes, branch.marks
        try:
            yield branch
        finally:
            self._rows, self.notes, self._marks = outer

    def extend(self, branch: Branch) -> None:
        """Take over what was collected aside."""
        self._rows.extend(branch.rows)
        for text in branch.notes:
            self.note(text)
        stronger(self._marks, branch.marks)

    @contextmanager
    def at(self, number: int) -> Iterator[None]:
        """Inside, rows belong to this node; one without a row or another mark is free."""
        outer, self._node = self._node, number
        try:
            yield
            self._marks.setdefault(number, (STATES.index("free"), ""))
        finally:
            self._node = outer

    def mark(self, state: str, reason: str = "") -> None:
        """Say what became of the node that is being taken; the strongest word counts."""
        mark = (STATES.index(state), reason)
        self._marks[self._node] = max(self._marks.get(self._node, mark), mark, key=_rank)

    def weigh(self, branch: Branch) -> tuple[int, int]:
        """FLOPs and bytes of a branch: what decides which is the costliest."""
        costs = [self.table.costs[index] for index, *_ in branch.rows]
        return sum(c.flops or 0 for c in costs), sum(c.bytes for c in costs)

    def unknowns(self, branch: Branch) -> list[str]:
        """Why a branch's FLOPs are no more than a lower bound: the reason of each row that nobody can count."""
        costs = (self.table.costs[index] for index, *_ in branch.rows)
        return [c.reason or "" for c in costs if c.flops is None]

    def calls(self) -> Iterator[tuple[Signature, tuple[int, ...], int, str, int]]:
        """The rows so far in words: signature, storages, phase, scope, number of the node."""
        for index, tensors, phase, scope, node in self._rows:
            yield self.table.signatures[index], tensors, phase, self._paths[scope], node

    def note(self, text: str) -> None:
        """Say something about the whole trace, once."""
        if text not in self.notes:
            self.notes.append(text)

    def finish(self, origin: Origin) -> Trace:
        """The trace of all rows."""
        for index, tensors, phase, scope, _ in self._rows:
            self._builder.add(index, tensors, phase=phase, scope=scope)
        return self._builder.finish(origin)

    def nodes(self, listed: Sequence[Node]) -> NodeMap:
        """The rows' nodes: these, in the order of their numbers, each with what became of it. A node that was never
        taken and isn't dead is in a body that isn't shown; one whose bodies have rows has rows."""
        owner = np.array([row[4] for row in self._rows], np.int32)
        return NodeMap(settled(listed, self._marks), owner)


def stronger(marks: Marks, others: Marks, first: int = 0) -> None:
    """Take over other marks, whose numbers count from `first`, where they are stronger."""
    for number, mark in others.items():
        place = first + number
        marks[place] = max(mark, marks.get(place, mark), key=_rank)


def settled(listed: Sequence[Node], marks: Marks) -> tuple[Node, ...]:
    """The nodes with their states."""
    hidden = STATES.index("body not walked")
    rank = [-1] * len(listed)
    reasons = [""] * len(listed)
    for number, node in enumerate(listed):
        is_dead = node.state == "dead" or (node.parent >= 0 and rank[node.parent] == STATES.index("dead"))
        mark = (STATES.index("dead"), "") if is_dead else marks.get(number, (hidden, ""))
        rank[number], reasons[number] = mark
    for number in reversed(range(len(listed))):  # bodies stand behind their nodes
        parent = listed[number].parent
        if parent >= 0 and rank[number] in _WITH_ROWS and rank[parent] == STATES.index("free"):
            rank[parent] = STATES.index("rows")
    return tuple(replace(n, state=STATES[r], reason=why) for n, r, why in zip(listed, rank, reasons, strict=True))


_WITH_ROWS = (STATES.index("rows"), STATES.index("unresolved"))


def _rank(mark: tuple[int, str]) -> int:
    return mark[0]


assert PHASES[0] == "forward"  # the default phase
