"""The map of nodes by itself, and in a trace's file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simdevice.errors import FileFormatError, SpecError
from simdevice.records import Cost, Node, NodeMap, OpTable, Origin, Signature, TensorSpec, Trace, TraceBuilder

X = TensorSpec((2, 3), "float32")

NODES = (
    Node("cast", "Cast", reads=("x",), writes=("a",), state="rows"),
    Node("loop", "Loop", reads=("n", "", "a"), implicit=("w",), writes=("y",), state="rows"),
    Node("add", "Add", "local", "loop/body/", 1, "model.layer", ("v", "w"), (), ("o",), "unresolved", "why"),
    Node("gone", "Exp", path="loop/body/", parent=1, state="dead"),
    Node("last", "Relu", state="rows"),
)


@pytest.fixture
def trace() -> Trace:
    """Five equal rows; the third is of no node."""
    builder = TraceBuilder(OpTable(lambda s: Cost("elementwise", 6, 24, 24)))
    for number in range(5):
        builder.add(Signature("onnx.Relu", (X,), (X,)), (number, number + 1))
    return builder.finish(Origin("test"))


@pytest.fixture
def nodes() -> NodeMap:
    return NodeMap(NODES, np.array([0, 2, -1, 2, 4], np.int32))


def test_rows_of_a_node_and_of_its_bodies(nodes: NodeMap) -> None:
    assert [nodes.rows(i).tolist() for i in range(5)] == [[0], [], [1, 3], [], [4]]
    assert [nodes.rows_within(i).tolist() for i in range(5)] == [[0], [1, 3], [1, 3], [], [4]]


def test_a_node_is_found_in_its_graph(nodes: NodeMap) -> None:
    assert nodes.find("add", "loop/body/") == 2
    assert nodes[nodes.find("last")] is NODES[4]
    with pytest.raises(LookupError, match=r"^unknown node 'lost': did you mean 'last'\?$"):
        nodes.find("lost")
    with pytest.raises(LookupError, match=r"^unknown node of 'loop/body/' 'ad': did you mean 'add'"):
        nodes.find("ad", "loop/body/")


@pytest.mark.parametrize("ending", ["json", "npz"])
def test_a_file_may_hold_the_nodes(trace: Trace, nodes: NodeMap, tmp_path: Path, ending: str) -> None:
    path, plain = tmp_path / f"t.{ending}", tmp_path / f"plain.{ending}"
    trace.save(path, nodes)
    trace.save(plain)
    assert NodeMap.load(path) == nodes
    assert NodeMap.load(plain) is None
    assert Trace.load(path) == Trace.load(plain) == trace  # a trace is the same with and without them


def test_a_file_without_nodes_is_as_before(trace: Trace, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    trace.save(path)
    held = json.loads(path.read_text())
    assert sorted(held) == ["format", "origin", "rows", "scopes", "signatures"]
    assert sorted(held["rows"]) == ["phase", "scope", "signature", "tensors"]


def test_nodes_of_another_trace_are_refused(trace: Trace, nodes: NodeMap, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"^expected nodes of these 5 rows, got those of 3$"):
        trace.save(tmp_path / "t.json", nodes.select(np.array([True, True, False, True, False])))
    assert list(tmp_path.iterdir()) == []


def _damage(key: str, value: Any) -> Any:
    def change(held: dict[str, Any]) -> None:
        held["nodes"][2][key] = value

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda h: h["rows"].update(owner=[0, 2]), "expected a node's number for each of 5 operators"),
        (lambda h: h["rows"].update(owner=[0, 2, 1, 2, 5]), "a node's number is not in -1..4"),
        (lambda h: h["rows"].update(owner=[0, 2, -2, 2, 4]), "a node's number is not in -1..4"),
        (lambda h: h["rows"].pop("owner"), "no 'owner'"),
        (_damage("state", "gone"), "unknown state 'gone' of a node"),
        (_damage("parent", 2), "node 2 is in a body of node 2"),
        (_damage("parent", "loop"), "expected a node's number, got 'loop'"),
        (_damage("name", 3), "expected a node's name, got 3"),
        (_damage("reads", [1]), "expected a value's name, got 1"),
    ],
)
def test_damaged_nodes_are_one_line(trace: Trace, nodes: NodeMap, tmp_path: Path, change: Any, said: str) -> None:
    path = tmp_path / "t.json"
    trace.save(path, nodes)
    held = json.loads(path.read_text())
    change(held)
    path.write_text(json.dumps(held))
    for load in (NodeMap.load, Trace.load):
        with pytest.raises(FileFormatError) as caught:
            load(path)
        assert str(caught.value) == f"{path}: a damaged trace: {said}"
