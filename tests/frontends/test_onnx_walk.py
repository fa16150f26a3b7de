"""What the walk makes of a graph: folding, storages, bodies, sequences, and what stays open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx_models import save

import simdevice as sd
from simdevice.errors import CaptureError, SpecError, UncostedOperatorError
from simdevice.records import Op, Trace


@pytest.fixture
def walk(tmp_path: Path) -> Any:
    """Trace a graph's text."""

    def run(text: str, *, opset: int = 20, **options: Any) -> Trace:
        return sd.trace(save(tmp_path, text, opset=opset), **options)

    return run


def names(trace: Trace) -> list[str]:
    return [op.name.removeprefix("onnx.") for op in trace.ops]


def only(trace: Trace, name: str) -> Op:
    (found,) = (op for op in trace.ops if op.name == f"onnx.{name}")
    return found


# Folding


def test_a_layout_operator_on_a_weight_is_the_weight(walk: Any) -> None:
    trace = walk("""g (float[2, 3] x) => (float[2, 4] y) <float[4, 3] w = {0,0,0,0,0,0,0,0,0,0,0,0}>
        { t = Transpose<perm = [1, 0]>(w)  y = MatMul(x, t) }""")
    assert names(trace) == ["MatMul"]
    assert only(trace, "MatMul").inputs[1].is_weight
    assert trace.weight_bytes == 4 * 3 * 4


def test_what_follows_from_constants_and_shapes_is_computed_at_load(walk: Any) -> None:
    trace = walk("""g (float[2, 6] x) => (float[4, 3] y) <int64[1] three = {3}>
        { s = Shape(x)  n = ReduceProd<keepdims = 1>(s)  d = Div(n, three)  to = Concat<axis = 0>(d, three)
          r = Reshape(x, to)  y = Relu(r) }""")
    assert names(trace) == ["Reshape", "Relu"]
    assert only(trace, "Reshape").outputs[0].shape == (4, 3)


def test_a_folded_cast_of_a_weight_counts_in_its_new_type(walk: Any) -> None:
    trace = walk("""g (float16[2, 3] x) => (float16[2, 3] y) <float[3] b = {1, 2, 3}>
        { h = Cast<to = 10>(b)  y = Add(x, h) }""")
    assert names(trace) == ["Add"]
    assert trace.weight_bytes == 6


def test_a_dequantised_weight_stays_quantised(walk: Any) -> None:
    trace = walk("""g (float[2, 3] x) => (float[2, 4] y) <int8[3, 4] w = {0,0,0,0,0,0,0,0,0,0,0,0}, float s = {0.5}>
        { d = DequantizeLinear(w, s)  y = MatMul(x, d) }""")
    assert names(trace) == ["MatMul"]
    assert trace.weight_bytes == 12 + 4


def test_random_numbers_are_drawn_at_every_run(walk: Any) -> None:
    trace = walk("g (float[2, 3] x) => (float[2, 3] y) { r = RandomNormal<shape = [2, 3]>()  y = Add(x, r) }")
    assert names(trace) == ["RandomNormal", "Add"]


@pytest.mark.parametrize("shapes", ["infer", "run"])
def test_nodes_in_no_order_are_put_in_one(walk: Any, tmp_path: Path, shapes: str) -> None:
    # a half-precision converter writes its casts at the end of the list; ONNX Runtime takes that
    path = save(
        tmp_path,
        """g (float[2, 3] x, bool c) => (float[2, 3] y)
        { h = Relu(x)  y = If(c) <then_branch = t () => (float[2, 3] a) { a = Abs(h) },
                                  else_branch = e () => (float[2, 3] b) { b = Neg(h) }> }""",
    )
    model = onnx.load(path)
    first = model.graph.node.pop(0)
    model.graph.node.append(first)
    onnx.save(model, path)
    trace = sd.trace(path, shapes=shapes, inputs={"c": np.array(True)})
    assert names(trace) == ["Relu", "Abs"]
    assert trace.unknown() == {}


def test_a_circle_of_nodes_holds_up_only_itself(walk: Any) -> None:
    trace = walk(
        "g (float[2] x) => (float[2] y, float[2] z) { y = Neg(h)  a = Add(b, x)  b = Abs(a)  h = Relu(x)  z = Exp(b) }"
    )
    assert names(trace)[:2] == ["Relu", "Neg"]
    assert trace.unknown()["onnx.Add"].endswith("'b', which nothing computes")


@pytest.mark.parametrize("shapes", ["infer", "run"])
def test_results_without_a_name_move_no_others(walk: Any, shapes: str) -> None:
    trace = walk(
        """g (float[5, 2, 2] x) => (float[1, 2, 1] y)
        <float[1, 3, 2] w = {0, 0, 0, 0, 0, 0}, float[1, 3, 1] r = {0, 0, 0}>
        { , last = GRU<hidden_size = 1>(x, w, r)  y = Relu(last) }""",
        shapes=shapes,
    )
    assert [t.shape for t in only(trace, "GRU").outputs] == [(1, 2, 1)]
    assert only(trace, "Relu").inputs[0].shape == (1, 2, 1)
    assert trace.unknown() == {}


def test_a_run_tells_shapes_and_the_file_types(walk: Any) -> None:
    # ONNX Runtime computes half-precision products in single precision on a CPU, with casts of its own
    text = "g (float16[2, 3] x, float16[3, 4] w) => (float16[2, 4] y) { h = MatMul(x, w)  y = Sin(h) }"
    trace, ran = walk(text), walk(text, shapes="run")
    assert [op.signature for op in trace.ops] == [op.signature for op in ran.ops]
    assert only(ran, "MatMul").outputs[0].dtype == "float16"


def test_what_nothing_computes_is_named(walk: Any) -> None:
    trace = walk("g (float[2] x) => (float[2] y) { y = Add(x, gone) }")
    assert trace.unknown() == {"onnx.Add": "node 'Add_0' (Add): after 'gone', which nothing computes"}


def test_what_no_result_needs_is_left_out(walk: Any) -> None:
    trace = walk("g (float[2, 3] x) => (float[2, 3] y) { unused = Exp(x)  y = Relu(x) }")
    assert names(trace) == ["Relu"]


# Storages


def test_a_free_operator_hands_its_storage_on_and_a_copy_makes_a_new_one(walk: Any) -> None:
    trace = walk("""g (float[2, 3] x) => (float[3, 2] y) <int64[2] to = {3, 2}>
        { a = Relu(x)  r = Reshape(a, to)  b = Neg(r)  c = Flatten<axis = 0>(b)  d = Reshape(c, to)
          y = Transpose<perm = [0, 1]>(d) }""")
    relu, reshape, neg, flatten, again, transpose = trace.ops
    assert relu.outputs[0].id == reshape.inputs[0].id == reshape.outputs[0].id == neg.inputs[0].id
    assert neg.outputs[0].id == flatten.outputs[0].id == again.outputs[0].id != relu.outputs[0].id
    assert transpose.outputs[0].id != transpose.inputs[0].id
    assert (reshape.category, transpose.category) == ("view", "movement")


def test_every_initializer_of_a_foreign_file_is_a_weight_once(walk: Any) -> None:
    trace = walk("""g (float[2, 2] x) => (float[2, 2] y) <float[2, 2] w = {1, 2, 3, 4}>
        { a = MatMul(x, w)  b = MatMul(a, w)  y = Add(b, w) }""")
    weights = [t for op in trace.ops for t in op.inputs if t.is_weight]
    assert len(weights) == 3
    assert len({t.id for t in weights}) == 1


def test_parameters_of_an_operator_are_no_tensors_of_it(walk: Any) -> None:
    trace = walk("""g (float[2, 8] x) => (float[2, 3] y, int64[2, 3] i) <int64[1] k = {3}> { y, i = TopK(x, k) }""")
    topk = only(trace, "TopK")
    assert [t.shape for t in topk.inputs] == [(2, 8)]
    assert topk.signature.attribute("k") == (3,)
    # k computed from data is a tensor like any other
    open_k = walk("""g (float[2, 8] x, int64[1] k) => (float[2, 3] y, int64[2, 3] i) { y, i = TopK(x, k) }""")
    assert len(only(open_k, "TopK").inputs) == 2


def test_optional_inputs_are_told_by_name(walk: Any) -> None:
    trace = walk("""g (float[5, 3, 4] x, float[1, 3, 2] h) => (float[5, 1, 3, 2] y)
        <float[1, 6, 4] w = {0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0},
         float[1, 6, 2] r = {0,0,0,0,0,0,0,0,0,0,0,0}>
        { y = GRU<hidden_size = 2>(x, w, r, , , h) }""")
    assert only(trace, "GRU").signature.attribute("given") == ("X", "W", "R", "initial_h")
    # 15 steps of 3 gates x 2 units x (4 + 2) weights, no biases, 10 per unit
    assert only(trace, "GRU").flops == 15 * (2 * 36 + 10 * 2)


def test_scopes_follow_the_names_of_nodes(tmp_path: Path) -> None:
    path = save(tmp_path, "g (float[2, 3] x) => (float[2, 3] y) { a = Relu(x)  y = Relu(a) }")
    model = onnx.load(path)
    model.graph.node[0].name, model.graph.node[1].name = "/model/layers.0/act/Relu", "plain"
    onnx.save(model, path)
    assert [op.scope for op in sd.trace(path).ops] == ["model.layers.0.act", ""]
    assert {op.scope for op in sd.trace(path, scopes=False).ops} == {""}


def test_functions_of_the_file_are_inlined(tmp_path: Path) -> None:
    text = """g (float[2, 3] x) => (float[2, 3] y) { y = local.twice(x) }
        <domain: "local", opset_import: ["" : 20]> twice (a) => (b) { r = Relu(a)  b = Add(r, r) }"""
    assert names(sd.trace(save(tmp_path, text))) == ["Relu", "Add"]


# Bodies

BRANCHES = """g (bool c, float[4, 4] x) => (float[4, 4] y)
    { y = If(c) <then_branch = t () => (float[4, 4] a) { a = MatMul(x, x) },
                 else_branch = e () => (float[4, 4] b) { b = Relu(x) }> }"""


def test_the_costliest_branch_is_shown_and_the_trace_says_so(walk: Any) -> None:
    trace = walk(BRANCHES)
    assert names(trace) == ["MatMul"]
    assert trace.origin.notes == ("If 'If_0': which branch runs follows from data; the costliest is shown",)


UNRESOLVED = """g (bool c, float[4, 4] x) => (float[N, M] y)
    { y = If<then_branch = t () => (float[N, M] a) { a = Relu(x) },
             else_branch = e () => (float[N, M] b) { n = NonZero(x)  f = Cast<to = 1>(n)
                                                           l = Transpose(f)  b = MatMul(f, l) }>(c) }"""


def test_a_branch_that_is_not_shown_is_not_free_where_nobody_knows_its_work(walk: Any) -> None:
    trace = walk(UNRESOLVED)
    assert names(trace) == ["Relu", "If"]
    assert trace.unknown().keys() == {"onnx.If"}
    assert "the branch that is not shown may cost more" in trace.unknown()["onnx.If"]
    assert "NonZero" in trace.unknown()["onnx.If"] or "MatMul" in trace.unknown()["onnx.If"]
    # known, or the one that ran: no question
    for how in ({"inputs": {"c": np.array(True)}}, {"shapes": "run"}):
        assert walk(UNRESOLVED, **how).unknown() == {}


@pytest.mark.parametrize(
    ("equation", "strange"), [("ij,jk->iz", "'z'"), ("i j , j k -> i y z", "'y', 'z'"), ("...j,jk->...x", "'x'")]
)
def test_an_index_that_is_in_no_operand_is_refused(walk: Any, equation: str, strange: str) -> None:
    text = f'''g (float[3, 4] x, float[4, 5] w) => (float[N, M] y) {{ y = Einsum<equation = "{equation}">(x, w) }}'''
    said = (
        rf"^node 'Einsum_0' \(Einsum\): expected indices of its operands in the result of '{equation}', got {strange}$"
    )
    with pytest.raises(CaptureError, match=said.replace("...", r"\.\.\.")):
        walk(text)


def test_a_chain_of_products_in_an_einsum_is_two_products(walk: Any) -> None:
    trace = walk("""g (float[100, 100] a, float[100, 100] b, float[100, 100] c) => (float[100, 100] y)
        { y = Einsum<equation = "ij,jk,kl->il">(a, b, c) }""")
    assert trace.flops == 2 * 2 * 100**3


@pytest.mark.parametrize(("condition", "expected"), [(True, "MatMul"), (False, "Relu")])
@pytest.mark.parametrize("shapes", ["infer", "run"])
def test_a_known_condition_or_a_run_chooses_the_branch(walk: Any, condition: bool, expected: str, shapes: str) -> None:
    trace = walk(BRANCHES, inputs={"c": np.array(condition)}, shapes=shapes)
    assert names(trace) == [expected]
    assert trace.origin.notes == ()


def test_a_constant_condition_is_no_question(walk: Any) -> None:
    trace = walk("""g (float[4, 4] x) => (float[4, 4] y) <int64[1] one = {1}>
        { s = Shape(x)  r = Size(s)  two = Constant<value_int = 2>()  c = Equal(r, two)
          y = If(c) <then_branch = t () => (float[4, 4] a) { a = Relu(x) },
                     else_branch = e () => (float[4, 4] b) { b = MatMul(x, x) }> }""")
    assert names(trace) == ["Relu"]


COUNTED = """g (float[2] x) => (float[2] y, float[3, 2] all) <int64 n = {3}, bool go = {1}>
    { y, all = Loop(n, go, x) <body = b (int64 i, bool c, float[2] v) => (bool d, float[2] w, float[2] s)
        { d = Identity(c)  w = Exp(v)  s = Neg(w) }> }"""


def test_a_loop_with_a_trip_count_is_walked_as_often(walk: Any) -> None:
    trace = walk(COUNTED)
    turns = [op for op in trace.ops if op.name == "onnx.Exp"]
    assert len(turns) == 3
    assert turns[0].outputs[0].id == turns[1].inputs[0].id
    assert trace.origin.notes == ()


def test_a_loop_that_grows_its_state_is_followed(walk: Any) -> None:
    trace = walk("""g (float[1] x) => (float[N] y) <int64 n = {3}, bool go = {1}>
        { y = Loop(n, go, x) <body = b (int64 i, bool c, float[K] v) => (bool d, float[M] w)
            { d = Identity(c)  w = Concat<axis = 0>(v, v) }> }""")
    assert [op.outputs[0].shape for op in trace.ops if op.name == "onnx.Concat"] == [(2,), (4,), (8,)]


def test_a_loop_on_a_condition_it_computes_from_its_counter_ends(walk: Any) -> None:
    trace = walk("""g (float[2] x) => (float[2] y) <bool go = {1}, int64 last = {4}>
        { y = Loop( , go, x) <body = b (int64 i, bool c, float[2] v) => (bool d, float[2] w)
            { d = Less(i, last)  w = Exp(v) }> }""")
    # the condition is computed after each of turns 0 to 4
    assert names(trace).count("Exp") == 5


@pytest.mark.parametrize("shapes", ["infer", "run"])
def test_a_loop_on_data_shows_one_turn_or_what_ran(walk: Any, shapes: str) -> None:
    text = """g (float[1] x) => (float[1] y, float[K, 1] all) <bool go = {1}, float top = {100}>
        { y, all = Loop( , go, x) <body = b (int64 i, bool c, float[1] v) => (bool d, float[1] w, float[1] s)
            { w = Add(v, v)  m = ReduceMax<keepdims = 0>(w)  d = Less(m, top)  s = Neg(w) }> }"""
    trace = walk(text, shapes=shapes, inputs={"x": np.array([10.0], np.float32)} if shapes == "run" else None)
    if shapes == "infer":
        assert names(trace).count("Add") == 1
        assert trace.origin.notes == ("Loop 'Loop_0': how often it runs follows from data; one turn is shown",)
    else:
        # 20, 40, 80, 160: the fourth is not below 100
        assert names(trace).count("Add") == 4
        assert trace.origin.notes == ()


def test_a_scan_is_walked_for_each_slice(walk: Any) -> None:
    trace = walk("""g (float[2] s, float[5, 2] x) => (float[2] last, float[5, 2] y)
        { last, y = Scan(s, x) <num_scan_inputs = 1, body = b (float[2] a, float[2] v) => (float[2] t, float[2] o)
            { t = Add(a, v)  o = Neg(t) }> }""")
    assert names(trace) == ["Add", "Neg"] * 5


def test_sequences_hold_tensors_and_cost_nothing(walk: Any) -> None:
    trace = walk("""g (float[2, 3] x) => (float[4, 3] y, float[2, 3] z) <int64 one = {1}>
        { a = Relu(x)  b = Neg(x)  s = SequenceConstruct(a, b)  y = ConcatFromSequence<axis = 0>(s)
          i = SequenceAt(s, one)  z = Exp(i) }""")
    assert names(trace) == ["Relu", "Neg", "ConcatFromSequence", "Exp"]
    neg, exp = only(trace, "Neg"), only(trace, "Exp")
    assert exp.inputs[0].id == neg.outputs[0].id
    assert only(trace, "ConcatFromSequence").cost.bytes == 2 * 48


def test_parts_of_a_split_are_written_once(walk: Any) -> None:
    trace = walk("""g (float[4, 3] x) => (float[2, 3] y) <int64[2] sizes = {1, 3}, int64 zero = {0}>
        { s = SplitToSequence<axis = 0>(x, sizes)  a = SequenceAt(s, zero)  y = Neg(a) }""")
    assert [t.shape for t in only(trace, "SplitToSequence").outputs] == [(1, 3), (3, 3)]


# What stays open


def test_a_size_that_data_decides_is_named_and_so_is_what_follows(walk: Any) -> None:
    trace = walk("""g (float[8] x) => (int64[1, N] y) { [find] i = NonZero(x)  [more] y = Neg(i) }""")
    assert trace.unknown() == {
        "onnx.NonZero": "node 'find' (NonZero): how large its result is follows from data",
        "onnx.Neg": "node 'more' (Neg): after node 'find' (NonZero): how large its result is follows from data",
    }
    assert trace.is_lower_bound
    assert only(trace, "NonZero").cost.bytes_read == 32


def test_one_run_closes_it(walk: Any) -> None:
    x = np.array([0, 1, 0, 1, 1, 0, 0, 0], np.float32)
    text = "g (float[8] x) => (int64[1, N] y) { i = NonZero(x)  y = Neg(i) }"
    for options in ({"inputs": {"x": x}}, {"inputs": {"x": x}, "shapes": "run"}):
        trace = walk(text, **options)
        assert trace.unknown() == {}
        assert only(trace, "Neg").inputs[0].shape == (1, 3)


def test_strict_refuses_an_open_shape(walk: Any) -> None:
    with pytest.raises(UncostedOperatorError, match="how large its result is follows from data"):
        walk("g (float[8] x) => (int64[1, N] y) { y = NonZero(x) }", strict=True)


def test_an_operator_of_nobody_is_named(walk: Any) -> None:
    trace = walk("g (float[8] x) => (float[8] y) { [odd] y = local.Odd(x) }")
    assert trace.unknown() == {"local.Odd": "no cost rule"}  # the file itself says its result's shape
    hidden = walk("g (float[8] x) => (float[8] y) { [odd] h = local.Odd(x)  y = Relu(h) }")
    assert hidden.unknown()["local.Odd"] == "node 'odd' (Odd): no shape rule for this operator"


def test_a_rule_of_the_users_own_counts(walk: Any) -> None:
    from simdevice.costs import streamed

    def rule(signature: Any) -> Any:
        return streamed(signature, "elementwise", 8)

    trace = walk("g (float[8] x) => (float[8] y) { y = local.Odd(x) }", rules={"local.Odd": rule})
    assert trace.flops == 8


# What a walk is given


def test_a_sequence_is_given_as_a_list(walk: Any) -> None:
    text = "g (seq(float[N, 3]) s, int64 i) => (float[N, 3] y) { a = SequenceAt(s, i)  y = Relu(a) }"
    held = [np.ones((2, 3), np.float32), np.ones((5, 3), np.float32)]
    for shapes in ("infer", "run"):
        trace = walk(text, inputs={"s": held, "i": np.array(1)}, shapes=shapes)
        assert only(trace, "Relu").outputs[0].shape == (5, 3)
    with pytest.raises(SpecError, match="expected an array for each tensor"):
        walk(text, inputs={"s": 3})


def test_an_optional_is_given_as_its_tensor(walk: Any) -> None:
    text = "g (optional(float[2, 3]) s) => (float[2, 3] y) { a = OptionalGetElement(s)  y = Relu(a) }"
    for shapes in ("infer", "run"):
        trace = walk(text, opset=18, inputs={"s": np.ones((2, 3), np.float32)}, shapes=shapes)
        assert only(trace, "Relu").outputs[0].shape == (2, 3)


def test_the_type_of_a_sequence_tells_its_items(walk: Any) -> None:
    trace = walk("g (seq(float[2, 3]) s, int64 i) => (float[2, 3] y) { a = SequenceAt(s, i)  y = Relu(a) }")
    assert trace.unknown() == {}
    assert trace.flops == 6


@pytest.mark.parametrize("kind", ["bfloat16", "float8e4m3fn"])
def test_a_run_takes_types_that_numpy_has_not(walk: Any, kind: str) -> None:
    number = {"bfloat16": 16, "float8e4m3fn": 17}[kind]
    text = f"g ({kind}[2, 3] x) => ({kind}[2, 3] y) {{ a = Cast<to = 1>(x)  b = Exp(a)  y = Cast<to = {number}>(b) }}"
    trace, ran = walk(text), walk(text, shapes="run")
    assert [op.signature for op in trace.ops] == [op.signature for op in ran.ops]


def test_a_function_of_an_older_operator_set_is_inlined(tmp_path: Path) -> None:
    text = """g (float[2, 3] x) => (float[2] y) { y = local.f(x) }
        <domain: "local", opset_import: ["" : 11]> f (X) => (Y)
        { t = ReduceSum<axes = [1], keepdims = 0>(X)  Y = Neg(t) }"""
    assert names(sd.trace(save(tmp_path, text, opset=17))) == ["ReduceSum", "Neg"]


def test_a_sparse_constant_is_a_whole_tensor(walk: Any, tmp_path: Path) -> None:
    path = save(
        tmp_path, "g (float[2, 4] x) => (float[2, 3] y) { s = Constant<value_float = 1.0>()  y = MatMul(x, s) }"
    )
    model = onnx.load(path)
    values, places = (
        helper.make_tensor("s", TensorProto.FLOAT, [2], [1.0, 2.0]),
        helper.make_tensor("i", TensorProto.INT64, [2], [0, 5]),
    )
    sparse = helper.make_attribute("sparse_value", helper.make_sparse_tensor(values, places, [4, 3]))
    model.graph.node[0].attribute.pop()
    model.graph.node[0].attribute.append(sparse)
    onnx.save(model, path)
    trace = sd.trace(path)
    assert (trace.flops, trace.weight_bytes) == (2 * 2 * 4 * 3, 4 * 3 * 4)


# Loops without measure


def test_loops_in_loops_end(walk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simdevice.frontends.onnx.turns.ALL_TURNS", 10)
    trace = walk("""g (float[2] x) => (float[2] y, float[4, 2] z) <int64 n = {4}, bool c = {1}>
        { y, z = Loop(n, c, x)<body = b (int64 i, bool ci, float[2] v) => (bool co, float[2] vo, float[2] vs)
            { co = Identity(ci)
              vo = Loop(n, c, v)<body = bb (int64 j, bool cj, float[2] w) => (bool ck, float[2] wo)
                { ck = Identity(cj)  wo = Tanh(w) }>
              vs = Exp(vo) }> }""")
    # four turns inside and one around them, twice: ten
    assert names(trace).count("Tanh") == 8
    assert trace.origin.notes == ("Loop 'Loop_0': 2 of its 4 turns are shown",)


def test_a_loop_of_just_as_many_turns_is_whole(walk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simdevice.frontends.onnx.turns.MOST_TURNS", 3)
    text = """g (float[2] x) => (float[2] y, float[N, 2] z) <int64 n = {COUNT}, bool c = {1}>
        { y, s = Loop(n, c, x)<body = b (int64 i, bool ci, float[2] v) => (bool co, float[2] vo, float[2] vs)
            { co = Identity(ci)  vo = Tanh(v)  vs = Exp(vo) }>  z = Neg(s) }"""
    whole, cut = walk(text.replace("COUNT", "3")), walk(text.replace("COUNT", "5"))
    assert (names(whole).count("Tanh"), whole.origin.notes) == (3, ())
    assert (names(cut).count("Tanh"), cut.origin.notes) == (3, ("Loop 'Loop_0': 3 of its 5 turns are shown",))
    assert only(cut, "Neg").outputs[0].shape == (5, 2)  # its result is as long as all turns make it


def test_a_scan_over_an_open_length_is_a_row(walk: Any) -> None:
    trace = walk("""g (float[4, 2] x) => (float[N] y)
        { n = NonZero(x)  t = Cast<to = 1>(n)
          y = Scan<num_scan_inputs = 1, body = b (float[M] v) => (float r) { r = ReduceSum<keepdims = 0>(v) }>(t) }""")
    assert trace.unknown()["onnx.Scan"].startswith("node 'Scan_2' (Scan): after node 'NonZero_0'")
