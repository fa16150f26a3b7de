"""Turns of a loop: each is walked, or is the last one again, on storages of its own.

A turn is the last one again where

1. what goes into it has the shapes and types of what went into the last one, and so has what comes out of it;
2. the last two turns are the same rows, what they made and what was handed on apart;
3. its number, and contents that change from turn to turn (a counter), change no row: a turn without them has the same
   ones. Where the number alone matters, the middle and the last turn are looked at, and the trace says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from onnx import GraphProto, NodeProto

from simdevice.frontends.emitter import Row
from simdevice.frontends.onnx.nodes import implicit_reads
from simdevice.frontends.onnx.values import Value, tensors_of

if TYPE_CHECKING:
    from simdevice.frontends.onnx.walker import Environment, GraphWalker

__all__ = ["ALL_TURNS", "FEW_NODES", "MOST_NODES", "MOST_ROWS", "MOST_TURNS", "Turns", "allowed"]

MOST_TURNS = 10_000
"""Turns of one loop that are shown; beyond it the trace says how many are missing."""

ALL_TURNS = 100_000
"""Turns of all loops together that are walked, nested ones above all; beyond it every loop shows one turn."""

FEW_NODES = 20_000
"""Nodes of a loop's turns up to which every turn is walked, so that all contents are known behind it."""

MOST_NODES = 100_000
"""Nodes of all loops together that are walked; beyond it as with turns."""

MOST_ROWS = 1_000_000
"""Rows of all loops together."""


def allowed(walker: GraphWalker, turn: int) -> int:
    """How many turns a loop may have that has had `turn`."""
    few = walker.turns < ALL_TURNS and walker.walked < MOST_NODES and walker.repeated < MOST_ROWS
    return MOST_TURNS if few else max(turn, 1)


@dataclass(frozen=True, slots=True)
class _Turn:
    """`first` and `end` bound the storages that it made; `inputs` are what is handed on from turn to turn."""

    inputs: list[Value]
    outputs: list[Value]
    rows: list[Row]
    first: int
    end: int


class Turns:
    """The turns of one loop. `arguments` gives the body's inputs from a turn's number (None: any) and what is handed
    on, as the body's first outputs are; `counts`: the number is the first of the body's inputs."""

    def __init__(
        self,
        walker: GraphWalker,
        node: NodeProto,
        body: GraphProto,
        env: Environment,
        arguments: Callable[[int | None, list[Value]], list[Value]],
        *,
        counts: bool,
    ) -> None:
        self._walker, self._node, self._body, self._env = walker, node, body, env
        self._arguments = arguments
        self._reads_number = counts and _reads(body, body.input[0].name)
        self._around = {t.storage for name in implicit_reads(node) if name in env for t in tensors_of(env[name])}
        self._before: _Turn | None = None
        self._last: _Turn | None = None
        self._tries = 3

    def walk(self, number: int, inputs: Sequence[Value]) -> list[Value]:
        """Take one turn; gives the body's outputs."""
        walker, handed = self._walker, list(inputs)
        walked, first, row = walker.walked, walker.emitter.storages, walker.emitter.size
        outputs = walker.walk(self._body, self._env, self._arguments(number, handed))
        rows = walker.emitter.rows(row)
        self._before, self._last = self._last, _Turn(handed, outputs, rows, first, walker.emitter.storages)
        walker.turns += 1
        walker.walked = max(walker.walked, walked + self._size(rows))
        return outputs

    def repeat(self, turn: int, total: int) -> tuple[int, list[Value]]:
        """After `turn` turns of `total`: how many more are the last one again, and the outputs of the last of them.
        None (0) where they have few rows, or are not alike."""
        before, last, walker = self._before, self._last, self._walker
        if before is None or last is None or walker.profile is not None or not self._tries:
            return 0, []
        times = min(total, MOST_TURNS) - turn
        if self._size(last.rows) * times <= FEW_NODES or not self._follows(before, last):
            return 0, []
        self._tries -= 1
        changing = [
            not _same(a, b) or not _same(b, c)
            for a, b, c in zip(before.inputs, last.inputs, last.outputs, strict=False)
        ]
        if not self._is_independent(turn, total, changing):
            return 0, []
        rows = max(len(last.rows), 1)
        times = min(times, max(MOST_ROWS - walker.repeated, 0) // rows)
        walker.repeated += rows * times
        if not times:
            return 0, []
        return times, self._again(last, times, changing)

    def _size(self, rows: Sequence[Row]) -> int:
        return max(len(rows), len(self._body.node))

    def _follows(self, before: _Turn, last: _Turn) -> bool:
        """Whether the last turn is the one before again (1 and 2), and the next can be told from it."""
        handed = len(last.inputs)
        kinds = [[_kind(v) for v in values] for values in (before.inputs, last.inputs, last.outputs[:handed])]
        if (
            kinds[0] != kinds[1]
            or kinds[1] != kinds[2]
            or list(map(_kind, before.outputs)) != list(map(_kind, last.outputs))
        ):
            return False
        if any(v.waiting is not None or v.stored is not None for v in (*last.inputs, *last.outputs)):
            return False
        into = _handed(before.inputs, last.inputs)
        onward = _handed(last.inputs, last.outputs[:handed])
        if into is None or onward is None:
            return False
        if any(names.get(s, s) != s for names in (into, onward) for s in self._around):  # is it handed on, or around?
            return False
        return _renamed(before.rows, before.first, last.first - before.first, into) == last.rows

    def _is_independent(self, turn: int, total: int, changing: Sequence[bool]) -> bool:
        """Whether a turn's number and the contents that change are of no matter to its rows (3)."""
        if not self._reads_number and not any(changing):
            return True
        if self._is_like_last(None, changing):
            return True
        if any(changing) or not all(self._is_like_last(n, changing) for n in ((turn + total) // 2, total - 1)):
            return False
        self._walker.emitter.note(
            f"{self._node.op_type} {self._node.name!r}: its turns are taken to be alike, as the first {turn:,}, the "
            "middle and the last one are"
        )
        return True

    def _is_like_last(self, number: int | None, changing: Sequence[bool]) -> bool:
        last, walker = self._last, self._walker
        assert last is not None
        inputs = [replace(v, data=None) if c else v for v, c in zip(last.inputs, changing, strict=True)]
        with walker.emitter.aside() as branch:
            outputs = walker.walk(self._body, self._env, self._arguments(number, inputs))
        if list(map(_kind, outputs)) != list(map(_kind, last.outputs)):
            return False
        handed_on = zip(outputs, last.outputs, changing, strict=False)
        if not all(c or _same(a, b) for a, b, c in handed_on):  # above all, whether the loop goes on
            return False
        return [(r[0], r[4]) for r in branch.rows] == [(r[0], r[4]) for r in last.rows]

    def _again(self, last: _Turn, times: int, changing: Sequence[bool]) -> list[Value]:
        """Rows of more turns, each after the other; gives the outputs of the last."""
        emitter, made = self._walker.emitter, last.end - last.first
        start = emitter.reserve(made * times)
        outputs = last.outputs
        for turn in range(times):
            into = _handed(last.inputs, outputs[: len(last.inputs)]) or {}
            shift = start + turn * made - last.first
            emitter.extend_rows(_renamed(last.rows, last.first, shift, into))
            outputs = [_moved(v, last.first, shift, into) for v in last.outputs]
        changes = [*changing, *(False for _ in last.outputs[len(changing) :])]
        return [replace(v, data=None) if c else v for v, c in zip(outputs, changes, strict=True)]


def _reads(body: GraphProto, name: str) -> bool:
    """Whether something in a body reads a name."""
    if any(result.name == name for result in body.output):
        return True
    return any(name in node.input or name in implicit_reads(node) for node in body.node)


def _kind(value: Value) -> tuple[Any, ...]:
    """All of a value that rows follow from, but its contents and storage."""
    items = None if value.items is None else tuple(_kind(item) for item in value.items)
    return value.shape, value.dtype, value.is_weight, value.constant, value.is_sequence, items


def _same(a: Value, b: Value) -> bool:
    """Whether as much is known of two values' contents, and that is the same."""
    if a.items is not None and b.items is not None:
        return all(_same(x, y) for x, y in zip(a.items, b.items, strict=True))
    if a.data is None or b.data is None:
        return a.data is b.data
    return a.data.tobytes() == b.data.tobytes()


def _storages(value: Value) -> list[int]:
    return [t.storage for t in tensors_of(value) if t.resolved]


def _handed(olds: Sequence[Value], news: Sequence[Value]) -> dict[int, int] | None:
    """Which storage takes the place of which; None where one would be two."""
    into: dict[int, int] = {}
    for a, b in zip(olds, news, strict=True):
        for old, new in zip(_storages(a), _storages(b), strict=True):
            if into.setdefault(old, new) != new:
                return None
    return into


def _renamed(rows: Sequence[Row], first: int, shift: int, into: Mapping[int, int]) -> list[Row]:
    """The same rows on other storages: those made since `first` are `shift` further, others are what is handed on."""
    return [
        (signature, tuple([s + shift if s >= first else into.get(s, s) for s in tensors]), phase, scope, node)
        for signature, tensors, phase, scope, node in rows
    ]


def _moved(value: Value, first: int, shift: int, into: Mapping[int, int]) -> Value:
    if value.items is not None:
        return replace(value, items=[_moved(item, first, shift, into) for item in value.items])
    storage = value.storage
    return replace(value, storage=storage + shift if storage >= first else into.get(storage, storage))
