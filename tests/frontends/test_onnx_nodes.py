"""Which node each row came from, and what became of the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser
from onnx_models import installed, save

import simdevice as sd
from simdevice.errors import UnknownNameError
from simdevice.frontends.onnx import walk
from simdevice.frontends.onnx.nodes import implicit_reads
from simdevice.records import NodeMap, Trace
from simdevice.records.nodes import STATES


@pytest.fixture
def mapped(tmp_path: Path) -> Any:
    """Walk a graph's text; the trace must be the one that `sd.trace` gives."""

    def run(text: str, **options: Any) -> tuple[Trace, NodeMap]:
        path = save(tmp_path, text)
        trace, nodes = walk(path, **options)
        given = {"inputs": options.pop("inputs")} if "inputs" in options else {}
        assert trace.rows == sd.trace(path, **given, **options).rows
        check(trace, nodes)
        return trace, nodes

    return run


def check(trace: Trace, nodes: NodeMap) -> None:
    """The rows of all nodes are the trace's rows, each once; states fit rows, operators fit types."""
    rows = [row for number in range(len(nodes)) for row in nodes.rows(number).tolist()]
    assert sorted(rows) == list(range(len(trace)))
    ops = list(trace.ops)
    for number, node in enumerate(nodes):
        assert node.state in STATES
        own = nodes.rows(number).tolist()
        assert {ops[row].name.rpartition(".")[2] for row in own} <= {node.type}
        if node.state in ("dead", "folded"):
            assert own == []
        if node.state == "rows":
            assert len(nodes.rows_within(number)) > 0
        if node.parent >= 0:
            assert set(own) <= set(nodes.rows_within(node.parent).tolist())
            assert node.path.startswith(f"{nodes[node.parent].path}{nodes[node.parent].name}/")


def states(nodes: NodeMap) -> dict[str, str]:
    return {f"{node.path}{node.name}": node.state for node in nodes}


def test_each_node_says_its_rows_and_what_became_of_it(mapped: Any) -> None:
    trace, nodes = mapped(
        """g (float[2, 6] x, float[5] open) => (float[3, 4] y, float[m] z)
        <float[4, 6] w = {0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0}, int64[2] to = {3, 4}>
        { [t] wt = Transpose<perm = [1, 0]>(w)   [p] h = MatMul(x, wt)  [gone] d = Exp(h)  [s] n = Shape(x)
          [r] q = Reshape(h, to)  [more] y = Add(q, four)  [c] four = Constant<value = float[1] {4}>()
          [which] i = NonZero(open)  [f] z = Cast<to = 1>(i) }"""
    )
    assert states(nodes) == {
        "t": "folded",
        "p": "rows",
        "gone": "dead",
        "s": "dead",
        "r": "free",
        "more": "rows",
        "c": "folded",
        "which": "unresolved",
        "f": "unresolved",
    }
    # a runtime reads a constant before it adds it, so `c` is put before `more`; its number is its place then
    assert [op.name for op in trace.ops] == [f"onnx.{n}" for n in ("MatMul", "Reshape", "Add", "NonZero", "Cast")]
    assert [nodes.rows(nodes.find(name)).tolist() for name in ("p", "r", "more", "which", "f")] == [
        [0],
        [1],
        [2],
        [3],
        [4],
    ]
    assert nodes[nodes.find("f")].reason == (
        "node 'f' (Cast): after node 'which' (NonZero): how large its result is follows from data"
    )


def test_a_node_says_what_it_reads_and_writes(mapped: Any) -> None:
    _, nodes = mapped("""g (float[1, 2, 4] x) => (float[1, 2, 4] y)
        { [clip] h = Clip(x, , high)  [high] high = Constant<value = float {1}>()
          [mine] y = local.Twist(h) }""")
    clip, mine = nodes[nodes.find("clip")], nodes[nodes.find("mine")]
    assert (clip.type, clip.domain, clip.reads, clip.writes) == ("Clip", "", ("x", "", "high"), ("h",))
    assert (mine.type, mine.domain, mine.implicit, mine.path, mine.parent) == ("Twist", "local", (), "", -1)


BRANCHES = """g (float[2, 3] x, bool c) => (float[2, 3] y)
    { [before] h = Relu(x)
      [choice] b = If(c) <then_branch = t () => (float[2, 3] a) { [step] k = Neg(h)  [step2] a = Add(k, x) },
                          else_branch = e () => (float[2, 3] z) { [step] z = Abs(h) }>
      [after] y = Exp(b) }"""


def test_a_branch_that_is_not_taken_is_not_walked(mapped: Any) -> None:
    trace, nodes = mapped(BRANCHES, inputs={"c": np.array(False)})
    assert states(nodes) == {
        "before": "rows",
        "choice": "rows",
        "after": "rows",
        "choice/else_branch/step": "rows",
        "choice/then_branch/step": "body not walked",
        "choice/then_branch/step2": "body not walked",
    }
    choice = nodes.find("choice")
    assert nodes[choice].implicit == ("h", "x")  # `k` and the results are the bodies' own
    assert nodes.rows(choice).tolist() == []
    assert nodes.rows_within(choice).tolist() == [1]
    # two nodes of one name, each found in its own graph
    assert nodes[nodes.find("step", "choice/then_branch/")].type == "Neg"
    assert nodes[nodes.find("step", "choice/else_branch/")].type == "Abs"
    assert [op.name for op in trace.ops] == ["onnx.Relu", "onnx.Abs", "onnx.Exp"]


def test_of_two_branches_walked_only_the_one_shown_has_rows(mapped: Any) -> None:
    trace, nodes = mapped(BRANCHES)
    assert states(nodes)["choice/then_branch/step"] == "rows"  # two operators cost more than one
    assert states(nodes)["choice/else_branch/step"] == "body not walked"
    assert nodes.owner.tolist() == [
        nodes.find("before"),
        *(nodes.find(n, "choice/then_branch/") for n in ("step", "step2")),
        nodes.find("after"),
    ]
    assert len(trace) == 4


def test_an_unknown_node_says_the_nearest() -> None:
    _, nodes = walk(parser.parse_model(f'<ir_version: 9, opset_import: ["" : 20]> {BRANCHES}'))
    with pytest.raises(UnknownNameError, match=r"^unknown node 'chioce'.*'choice'"):
        nodes.find("chioce")
    with pytest.raises(UnknownNameError, match=r"^unknown node of 'choice/else_branch/' 'step2'.*'step'"):
        nodes.find("step2", "choice/else_branch/")


LOOP = """g (float[2] x, float[2] bias) => (float[2] y, float[3, 2] each) <int64 three = {3}, bool yes = {1}>
    { [turns] y, each = Loop(three, yes, x)
        <body = b (int64 i, bool go, float[2] v) => (bool go, float[2] w, float[2] s)
        { [add] w = Add(v, bias)  [out] s = Neg(w)  [unused] u = Exp(w) }> }"""


def test_a_loops_body_has_a_row_per_turn(mapped: Any) -> None:
    trace, nodes = mapped(LOOP)
    turns = nodes.find("turns")
    assert nodes.rows(nodes.find("add", "turns/body/")).tolist() == [0, 2, 4]
    assert nodes.rows(nodes.find("out", "turns/body/")).tolist() == [1, 3, 5]
    assert nodes.rows_within(turns).tolist() == [0, 1, 2, 3, 4, 5]
    assert nodes[turns].reads == ("three", "yes", "x")
    assert nodes[turns].implicit == ("bias",)
    assert states(nodes)["turns/body/unused"] == "dead"
    assert len(trace.table) == 2  # three turns of the same two operators


def test_a_loop_without_a_turn_has_a_body_that_is_not_walked(mapped: Any) -> None:
    _, nodes = mapped(LOOP.replace("three = {3}", "three = {0}").replace("[3, 2]", "[0, 2]"))
    assert states(nodes) == {
        "turns": "free",
        "turns/body/add": "body not walked",
        "turns/body/out": "body not walked",
        "turns/body/unused": "dead",
    }


def test_a_scans_body_reads_what_is_around_it(mapped: Any) -> None:
    trace, nodes = mapped("""g (float[2] start, float[4, 2] xs, float[2] k) => (float[2] last, float[4, 2] ys)
        { [scan] last, ys = Scan(start, xs)
            <num_scan_inputs = 1, body = b (float[2] s, float[2] v) => (float[2] n, float[2] o)
            { [m] t = Mul(v, k)  [a] n = Add(s, t)  [o] o = Identity(n) }> }""")
    scan = nodes.find("scan")
    assert nodes[scan].implicit == ("k",)
    assert nodes.rows(nodes.find("m", "scan/body/")).tolist() == [0, 3, 6, 9]
    assert nodes[nodes.find("o", "scan/body/")].state == "free"
    assert len(trace) == 12


def test_a_body_that_cannot_be_walked_is_one_row(mapped: Any) -> None:
    trace, nodes = mapped("""g (float[5] x) => (float[n] y)
        { [which] i = NonZero(x)  [flat] t = Transpose(i)
          [scan] y = Scan(t) <num_scan_inputs = 1, body = b (int64[1] v) => (float[1] o)
              { [c] o = Cast<to = 1>(v) }> }""")
    scan = nodes.find("scan")
    assert nodes[scan].state == "body not walked"
    assert nodes[scan].reason.startswith("node 'scan' (Scan): after node ")
    assert nodes.rows(scan).tolist() == [2]
    assert states(nodes)["scan/body/c"] == "body not walked"
    assert len(trace) == 3


SHADOWS = """g (float[2] x, bool c) => (float[2] y)
    { [outer] h = Exp(x)
      [one] y = If(c) <then_branch = t () => (float[2] a)
                {{ [inner] h = Neg(x)
                   [two] a = If(c) <then_branch = tt () => (float[2] q) {{ q = Abs(h) }},
                                    else_branch = te () => (float[2] r) {{ r = Sin({seen}) }}> }},
              else_branch = e () => (float[2] b) {{ b = Cos(x) }}> }"""


def test_a_name_defined_in_a_body_is_not_read_from_outside(mapped: Any) -> None:
    text = SHADOWS.replace("{{", "{").replace("}}", "}")
    _, nodes = mapped(text.replace("{seen}", "h"), inputs={"c": np.array(True)})
    one, two = nodes.find("one"), nodes.find("two", "one/then_branch/")
    assert nodes[one].implicit == ("x", "c")  # `h` is the branch's own
    assert nodes[two].implicit == ("h",)
    assert nodes[nodes.find("outer")].state == "dead"  # only the inner `h` is read
    (row,) = nodes.rows(nodes.find("Abs_0", "one/then_branch/two/then_branch/")).tolist()
    (inner,) = nodes.rows(nodes.find("inner", "one/then_branch/")).tolist()
    assert row == inner + 1


def test_every_way_a_body_defines_a_name() -> None:
    model = parser.parse_model("""<ir_version: 9, opset_import: ["" : 20]>
        g (float[2] x, int64 n, bool c) => (float[2] y)
        { y = Loop(n, c, x) <body = b (int64 i, bool go, float[2] v) => (bool go, float[2] w) <float[2] held = {1, 2}>
            { t = Add(v, held)  u = Mul(t, outside)  w = Sub(u, x) }> }""")
    assert implicit_reads(model.graph.node[0]) == ("outside", "x")
    body = model.graph.node[0].attribute[0].g
    sparse = body.sparse_initializer.add()
    sparse.values.name = "outside"
    assert implicit_reads(model.graph.node[0]) == ("x",)
    body.output[1].name = "c"  # what a body returns may be from outside too
    assert implicit_reads(model.graph.node[0]) == ("x", "c")


def test_what_a_dead_node_runs_is_dead(mapped: Any) -> None:
    _, nodes = mapped(BRANCHES.replace("Exp(b)", "Exp(h)"))
    assert {name: state for name, state in states(nodes).items() if name.startswith("choice")} == dict.fromkeys(
        ("choice", "choice/then_branch/step", "choice/then_branch/step2", "choice/else_branch/step"), "dead"
    )


def test_equal_operators_stay_one_signature(mapped: Any) -> None:
    trace, nodes = mapped(
        "g (float[4, 4] x) => (float[4, 4] y) { a = MatMul(x, x)  b = MatMul(a, a)  y = MatMul(b, b) }"
    )
    assert len(trace.table) == 1
    assert nodes.owner.tolist() == [0, 1, 2]
    assert [n.name for n in nodes] == ["MatMul_0", "MatMul_1", "MatMul_2"]


def test_sequences_without_a_row_are_free(mapped: Any) -> None:
    _, nodes = mapped("""g (float[2, 3] x) => (float[1, 3] y) <int64 zero = {0}>
        { [parts] s = SplitToSequence<axis = 0>(x)  [size] n = SequenceLength(s)  [pick] p = SequenceAt(s, zero)
          [neg] y = Neg(p) }""")
    assert states(nodes) == {"parts": "rows", "size": "dead", "pick": "free", "neg": "rows"}


def test_names_repeated_in_one_graph_are_told_apart(tmp_path: Path) -> None:
    model = onnx.load(save(tmp_path, "g (float[2] x) => (float[2] y) { a = Neg(x)  b = Exp(a)  y = Sin(b) }"))
    for node in model.graph.node:
        node.name = "same"
    before = model.SerializeToString()
    trace, nodes = walk(model)
    check(trace, nodes)
    assert [n.name for n in nodes] == ["same", "same#1", "same#2"]
    assert model.SerializeToString() == before  # it stays as it is


@pytest.mark.parametrize("shapes", ["infer", "run"])
def test_a_model_in_memory_is_walked_as_its_file(tmp_path: Path, shapes: str) -> None:
    path = save(tmp_path, BRANCHES)
    inputs = {"c": np.array(True)}
    of_file, of_model = (walk(m, inputs=inputs, shapes=shapes) for m in (path, onnx.load(path)))
    assert of_file[1] == of_model[1]
    assert of_file[0].rows == of_model[0].rows
    check(*of_model)


def test_a_selection_keeps_the_nodes_of_its_rows(mapped: Any) -> None:
    trace, nodes = mapped(LOOP)
    keep = np.arange(len(trace)) % 2 == 0  # the Adds
    chosen = nodes.select(keep)
    check_rows = [row for number in range(len(chosen)) for row in chosen.rows(number).tolist()]
    assert sorted(check_rows) == [0, 1, 2]
    assert chosen.rows(chosen.find("add", "turns/body/")).tolist() == [0, 1, 2]
    assert len(trace.select(keep)) == 3


def test_a_free_operators_result_is_its_first_input_of_two(mapped: Any) -> None:
    trace, nodes = mapped(
        """g (float[2] x, float[2] like) => (float[2] y)
        { a = Neg(x)  b = Exp(like)  [same] c = CastLike(a, b)  y = Add(c, b) }"""
    )
    neg, exp, same, add = trace.ops
    assert nodes[nodes.find("same")].state == "free"
    assert same.outputs[0].id == neg.outputs[0].id
    assert [t.id for t in add.inputs] == [neg.outputs[0].id, exp.outputs[0].id]


def test_every_node_of_a_shipped_model_is_accounted_for() -> None:
    # Silero's detector has one network per sampling rate, in branches of an If that holds other Ifs: 689 nodes in all
    path = installed("silero_vad") / "data" / "silero_vad.onnx"
    dims = {"input.0": 1, "input.1": 576, "state.1": 1}
    trace, nodes = walk(path, dims=dims, inputs={"sr": np.array(16000)})
    check(trace, nodes)
    assert len(nodes) == 689
    assert [n.type for n in nodes if n.parent < 0] == ["Constant", "Equal", "If", "Identity", "Identity"]
    (choice,) = (number for number, n in enumerate(nodes) if n.parent < 0 and n.type == "If")
    assert len(nodes.rows_within(choice)) == len(trace) - 3  # Equal and two times Identity stand beside it


def test_what_only_a_body_of_a_body_reads_is_needed_from_outside(mapped: Any) -> None:
    text = SHADOWS.replace("{{", "{").replace("}}", "}").replace("{seen}", "deep")
    _, nodes = mapped(text.replace("[outer] h = Exp(x)", "[outer] deep = Exp(x)"), inputs={"c": np.array(True)})
    assert nodes[nodes.find("one")].implicit == ("x", "c", "deep")
    assert nodes[nodes.find("two", "one/then_branch/")].implicit == ("h", "deep")
    assert nodes[nodes.find("outer")].state == "rows"
