"""Rows on their way into a trace: whose they are, and what becomes of those that wait aside."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from simdevice.costs import Costs
from simdevice.frontends.emitter import Emitter, Known, stronger
from simdevice.records import Node, Origin, TensorSpec
from simdevice.records.nodes import STATES

X = TensorSpec((2, 3), "float32")
NODES = [Node("outer", "If"), Node("inner", "Relu", path="outer/then_branch/", parent=0), Node("last", "Relu")]


@pytest.fixture
def emitter() -> Emitter:
    return Emitter(Costs())


def relu(emitter: Emitter) -> None:
    emitter.call("onnx.Relu", [Known(X, 0)], [Known(X, 1)])


def states(emitter: Emitter) -> list[str]:
    return [node.state for node in emitter.nodes(NODES)]


def test_a_row_belongs_to_the_innermost_node_around_it(emitter: Emitter) -> None:
    relu(emitter)
    with emitter.at(0):
        with emitter.at(1):
            relu(emitter)
        relu(emitter)
    relu(emitter)
    assert emitter.nodes(NODES).owner.tolist() == [-1, 1, 0, -1]
    assert emitter.node == -1


@pytest.mark.parametrize("order", [("rows", "folded"), ("folded", "rows")])
def test_the_strongest_word_of_several_turns_counts(emitter: Emitter, order: tuple[str, str]) -> None:
    for state in order:
        with emitter.at(2):
            emitter.mark(state)
    assert states(emitter) == ["body not walked", "body not walked", "rows"]


def test_a_node_that_says_nothing_is_free(emitter: Emitter) -> None:
    for number in range(3):
        with emitter.at(number):
            pass
    assert states(emitter) == ["free", "free", "free"]


def test_a_node_has_rows_if_its_body_has(emitter: Emitter) -> None:
    with emitter.at(0), emitter.at(1):
        relu(emitter)
    assert states(emitter) == ["rows", "rows", "body not walked"]


def test_what_waits_aside_is_nothing_until_it_is_taken(emitter: Emitter) -> None:
    with emitter.at(0):
        with emitter.aside() as branch, emitter.at(1):
            relu(emitter)
            emitter.note("said aside")
        assert emitter.notes == []
        assert states(emitter)[1] == "body not walked"
        emitter.extend(branch)
    assert emitter.notes == ["said aside"]
    assert states(emitter) == ["rows", "rows", "body not walked"]
    assert emitter.nodes(NODES).owner.tolist() == [1]


@pytest.mark.parametrize("first", [0, 3])
def test_marks_are_taken_over_where_they_are_stronger(first: int) -> None:
    folded, rows, open_ = ((STATES.index(s), s) for s in ("folded", "rows", "unresolved"))
    marks: Any = {first: rows, first + 1: folded, 9: open_}
    stronger(marks, {0: folded, 1: rows, 2: folded}, first)
    assert marks == {first: rows, first + 1: rows, first + 2: folded, 9: open_}


def test_equal_calls_without_a_shape_are_one_signature(emitter: Emitter) -> None:
    for _ in range(3):
        emitter.unresolved("onnx.NonZero", [Known(X, 0)], [], "data decides")
    emitter.unresolved("onnx.NonZero", [Known(X, 0)], [], "another reason")
    trace = emitter.finish(Origin("test"))
    assert len(trace) == 4
    assert len(trace.table) == 2
    np.testing.assert_array_equal(trace.rows.signature, [0, 0, 0, 1])
