"""What is known of operators by domain: names and inputs are ONNX Runtime's own; another domain's operator gets none of
it."""

from __future__ import annotations

import ast
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, reference
from onnx_models import save

import simdevice as sd
from simdevice.costs import registered
from simdevice.costs.onnx import PARAMETERS
from simdevice.costs.registry import Rule, streamed
from simdevice.frontends.onnx import fold, shapes
from simdevice.frontends.onnx.operators import OPERATORS, known
from simdevice.frontends.onnx.shapes import Schemas
from simdevice.frontends.onnx.values import Value

FRONT_ENDS = Path(shapes.__file__).parents[1]


@cache
def schemas() -> dict[tuple[str, str], Any]:
    """ONNX Runtime's newest schema by domain and name."""
    state = pytest.importorskip("onnxruntime.capi.onnxruntime_pybind11_state", reason="needs ONNX Runtime")
    newest: dict[tuple[str, str], Any] = {}
    for schema in state.get_all_operator_schema():
        key = schema.domain, schema.name
        if key not in newest or newest[key].since_version < schema.since_version:
            newest[key] = schema
    return newest


def contributed() -> list[tuple[str, str]]:
    return [(domain, name) for domain, operators in OPERATORS.items() for name in operators]


@pytest.mark.parametrize(("domain", "name"), contributed(), ids=lambda part: part)
def test_names_and_inputs_are_those_of_onnx_runtime(domain: str, name: str) -> None:
    schema = schemas().get((domain, name))
    assert schema is not None, f"ONNX Runtime has no {domain}.{name}"
    operator = OPERATORS[domain][name]
    if domain == "ai.onnx.ml":  # onnx has these schemas, and their names are asked there
        assert operator.inputs == ()
        return
    assert operator.inputs == tuple(i.name for i in schema.inputs)
    assert operator.is_variadic == str(schema.inputs[-1].option).endswith("Variadic")


def test_every_contributed_cost_rule_is_of_an_operator_that_exists_and_is_known_here() -> None:
    rules = [name for name in registered() if name.startswith("com.microsoft.")]
    keys = {name: tuple(name.rsplit(".", 1)) for name in rules}
    assert len(rules) > 80
    assert {name for name in rules if keys[name] not in schemas()} == set()
    missing = [n for n in rules if keys[n][1] not in OPERATORS[keys[n][0]]]
    assert missing == []


def test_parameters_are_inputs_of_their_operators() -> None:
    for name, parameters in PARAMETERS.items():
        domain, _, op_type = name.rpartition(".")
        if domain == "onnx":
            continue  # test_onnx_schemas
        inputs = OPERATORS[domain][op_type].inputs
        assert {inputs[index] for index in parameters} == set(parameters.values()), name


def signature(trace: sd.Trace, name: str) -> Any:
    (op,) = (op for op in trace.ops if op.name == name)
    return op.signature


def test_another_domains_operator_has_numbered_inputs_and_no_shape(tmp_path: Path) -> None:
    text = "g (float[1, 4, 6, 6] x, float[8, 4, 3, 3] w) => (float[1, 8, 4, 4] y) {{ h = {op}(x, w)  y = Relu(h) }}"

    def of(op: str) -> Any:
        # a rule that declares `given` shows the formal names that the walk knows
        name = f"onnx.{op}" if "." not in op else op
        rules = {name: Rule(lambda s: streamed(s, "elementwise", 0), ("given",))}
        return sd.trace(save(tmp_path, text.format(op=op)), rules=rules)

    assert signature(of("Conv"), "onnx.Conv").attribute("given") == ("X", "W")
    assert signature(of("com.microsoft.FusedConv"), "com.microsoft.FusedConv").attribute("given") == ("X", "W")
    local = of("local.Conv")
    assert local.unknown()["local.Conv"].endswith("no shape rule for this operator")


def test_an_input_beyond_the_formal_ones_has_a_number_unless_the_last_repeats(tmp_path: Path) -> None:
    microsoft = OPERATORS["com.microsoft"]
    assert [microsoft["QLinearConcat"].formal(i) for i in (0, 1, 2, 7)] == [
        *("Y_scale", "Y_zero_point", "inputs", "inputs")
    ]
    assert [microsoft["FusedConv"].formal(i) for i in (3, 4)] == ["Z", "4"]
    text = "g (float[1, 1, 3, 3] x, float[1, 1, 1, 1] w, float[1] b) => (float[1, 1, 3, 3] y) {{ y = {call} }}"
    rules = {f"onnx.{op}": Rule(lambda s: streamed(s, "elementwise", 0), ("given",)) for op in ("Conv", "Sum")}
    conv, total = (
        sd.trace(save(tmp_path, text.format(call=call)), rules=rules).ops[0].signature.attribute("given")
        for call in ("Conv(x, w, b, b)", "Sum(x, w, b, b)")
    )
    assert conv == ("X", "W", "B", "3")
    assert total == ("data_0",) * 4


@pytest.mark.parametrize("name", ["Attention", "Conv", "FusedConv", "Gelu", "QGemm", "Trilu"])
def test_nothing_is_known_of_an_operator_of_another_domain(name: str) -> None:
    assert known(helper.make_node(name, ["x"], ["y"], domain="local")) is None


@pytest.mark.parametrize(
    ("op", "text"),
    [
        ("Shape", "h = local.Shape(x)"),
        ("Size", "h = local.Size(x)"),
        ("Gelu", "h = local.Gelu(x)"),
        ("Identity", "h = local.Identity(x)"),
        ("Constant", "h = local.Constant<value = float[1] {1}>()"),
    ],
)
def test_a_name_of_onnx_in_another_domain_is_another_operator(tmp_path: Path, op: str, text: str) -> None:
    trace = sd.trace(save(tmp_path, f"g (float[2] x) => (float[2] y) {{ {text}  y = Add(x, h) }}"))
    # none of them tells a shape, so the sum after it has none either; Constant has no inputs, so it is folded
    expected = set() if op == "Constant" else {f"local.{op}"}
    assert set(trace.unknown()) - {"onnx.Add"} == expected


def test_both_spellings_of_the_default_domain_are_one(tmp_path: Path) -> None:
    path = save(
        tmp_path,
        """g (float[2, 3] x) => (float[3, 2] y) <int64[2] to = {3, 2}, bool yes = {1}>
        { s = Shape(x)  n = Size(x)  c = Constant<value = float[1] {1}>()  r = Reshape(x, to)
          b = If(yes) <then_branch = t () => (float[3, 2] a) { a = Neg(r) },
                       else_branch = e () => (float[3, 2] z) { z = Abs(r) }>
          y = Add(b, c) }""",
    )
    plain = sd.trace(path)
    model = onnx.load(path)
    for node in model.graph.node:
        node.domain = "ai.onnx"
    onnx.save(model, path)
    spelled = sd.trace(path)
    assert [op.name for op in spelled.ops] == ["onnx.Reshape", "onnx.Neg", "onnx.Add"]
    assert [op.signature for op in spelled.ops] == [op.signature for op in plain.ops]


def test_a_dequantised_weight_of_onnx_runtime_stays_quantised(tmp_path: Path) -> None:
    trace = sd.trace(
        save(
            tmp_path,
            """g (float[2, 3] x) => (float[2, 4] y)
            <uint8[3, 4] w = {0,0,0,0,0,0,0,0,0,0,0,0}, float s = {0.5}, uint8 z = {0}>
            { d = com.microsoft.DequantizeLinear(w, s, z)  y = MatMul(x, d) }""",
        )
    )
    assert [op.name for op in trace.ops] == ["onnx.MatMul"]
    assert trace.weight_bytes == 12 + 4 + 1  # uint8 weights, a float scale, a uint8 zero point


@pytest.mark.parametrize("op", ["Trilu", "com.microsoft.Trilu"])
def test_the_diagonal_of_a_triangle_is_a_parameter_in_both_domains(tmp_path: Path, op: str) -> None:
    trace = sd.trace(save(tmp_path, f"g (float[4, 4] x) => (float[4, 4] y) <int64 k = {{1}}> {{ y = {op}(x, k) }}"))
    (row,) = trace.ops
    assert [t.shape for t in row.inputs] == [(4, 4)]  # k is read at load
    assert row.cost.bytes == 4 * 16 + 4 * 16


@pytest.mark.parametrize(
    ("inputs", "attributes"),
    [(["x", ""], {"num_heads": 1}), (["x"], {}), (["", "x"], {"num_heads": 1})],
)
def test_a_contributed_node_without_what_it_needs_has_no_shape(inputs: list[str], attributes: dict[str, int]) -> None:
    node = helper.make_node("Attention", inputs, ["y"], domain="com.microsoft", **attributes)
    values = [Value((1, 2, 8), "float32") if name else None for name in inputs]
    protos, reason = shapes.infer(node, values, Schemas({"": 20, "com.microsoft": 1}))
    assert protos == [None]
    assert reason == shapes.NO_SHAPE_RULE


# Folding


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ([-7, 7, -7, 7, -8, 0], [2, -2, -2, 2, 2, -3], [-3, -3, 3, 3, -4, 0]),  # numpy's floor gives -4 twice
        ([-1], [4], [0]),
    ],
)
def test_whole_numbers_are_divided_towards_zero(a: list[int], b: list[int], expected: list[int]) -> None:
    node = helper.make_node("Div", ["a", "b"], ["y"])
    for dtype in (np.int8, np.int32, np.int64):
        values = [Value((len(v),), "int64", data=np.array(v, dtype)) for v in (a, b)]
        results = fold.evaluate(node, values, {"": 20})
        assert results is not None
        assert results[0].tolist() == expected
        assert results[0].dtype == dtype


def test_the_lowest_number_is_divided_as_any_other() -> None:
    values = [Value((1,), "int8", data=np.array([v], np.int8)) for v in (-128, 3)]
    results = fold.evaluate(helper.make_node("Div", ["a", "b"], ["y"]), values, {"": 20})
    assert results is not None
    assert results[0].tolist() == [-42]  # 128 = 3 * 42 + 2; its absolute value is no int8


SQUARE, SIGNED = np.arange(6).reshape(2, 3), np.array([[-7, 5, -1], [3, -4, 9]])


@pytest.mark.parametrize(
    ("op", "arrays", "attributes"),
    [
        ("Add", [SQUARE, SIGNED], {}),
        ("Cast", [SIGNED], {"to": onnx.TensorProto.FLOAT}),
        ("Cast", [SIGNED / 2], {"to": onnx.TensorProto.INT64}),
        ("Concat", [SQUARE, SIGNED], {"axis": 0}),
        ("Concat", [SQUARE, SIGNED], {"axis": 1}),
        ("Concat", [SQUARE, SIGNED], {"axis": -1}),
        ("Div", [SQUARE / 4, SIGNED / 3], {}),
        ("Equal", [SQUARE, SIGNED], {}),
        ("Gather", [SQUARE, np.array([1, 0])], {}),
        ("Gather", [SQUARE, np.array([2, -1])], {"axis": 1}),
        ("Identity", [SQUARE], {}),
        ("Mul", [SQUARE, SIGNED], {}),
        ("Squeeze", [SQUARE.reshape(1, 2, 1, 3)], {}),
        ("Squeeze", [SQUARE.reshape(1, 2, 1, 3), np.array([2])], {}),
        ("Sub", [SQUARE, SIGNED], {}),
        ("Unsqueeze", [SQUARE, np.array([1, -1])], {}),
    ],
)
def test_what_is_computed_here_is_what_onnx_computes(op: str, arrays: list[Any], attributes: dict[str, Any]) -> None:
    names = [str(i) for i in range(len(arrays))]
    node = helper.make_node(op, names, ["y"], **attributes)
    (expected,) = reference.ReferenceEvaluator(node).run(None, dict(zip(names, arrays, strict=True)))
    results = fold.evaluate(node, [Value(a.shape, str(a.dtype), data=a) for a in arrays], {"": 20})
    assert results is not None
    np.testing.assert_array_equal(results[0], expected, strict=True)


@pytest.mark.parametrize(
    ("op", "arrays", "is_known"),
    [
        ("Add", [np.zeros(2048), np.zeros(2048)], True),  # 4,096 elements go in
        ("Add", [np.zeros(4096), np.zeros(1)], False),
        ("Expand", [np.zeros(1), np.array([64, 64])], True),  # 4,096 elements come out
        ("Expand", [np.zeros(1), np.array([64, 65])], False),
        ("Tile", [np.zeros(64), np.array([64])], True),
        ("Tile", [np.zeros(64), np.array([65])], False),
        ("ConstantOfShape", [np.array([4096])], True),
        ("ConstantOfShape", [np.array([4097])], False),
        ("Range", [np.array(0), np.array(4096), np.array(1)], True),
        ("Range", [np.array(0), np.array(4097), np.array(1)], False),
    ],
)
def test_contents_are_computed_up_to_a_size(op: str, arrays: list[Any], is_known: bool) -> None:
    values = [Value(a.shape, str(a.dtype), data=a) for a in arrays]
    node = helper.make_node(op, [str(i) for i in range(len(arrays))], ["y"])
    assert (fold.evaluate(node, values, {"": 20}) is not None) == is_known


def test_what_would_be_huge_is_never_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference, "ReferenceEvaluator", lambda *a, **k: pytest.fail("it was asked to make it"))
    for op, arrays in (
        ("ConstantOfShape", [np.array([1 << 40])]),
        ("Expand", [np.zeros(1), np.array([1 << 20, 1 << 20])]),
        ("Tile", [np.zeros(64), np.array([1 << 40])]),
    ):
        values = [Value(a.shape, str(a.dtype), data=a) for a in arrays]
        node = helper.make_node(op, [str(i) for i in range(len(arrays))], ["y"])
        assert fold.evaluate(node, values, {"": 20}) is None


def test_a_shape_computed_by_a_negative_division_is_the_one_of_a_run(tmp_path: Path) -> None:
    text = """g (float[6] x) => (float[2, 3] y) <int64[1] minus = {-7}, int64[1] two = {2}, int64[1] five = {5},
               int64[1] rest = {-1}>
        { q = Div(minus, two)  n = Add(q, five)  to = Concat<axis = 0>(n, rest)  y = Reshape(x, to) }"""
    for shapes_from in ("infer", "run"):
        trace = sd.trace(save(tmp_path, text), shapes=shapes_from)
        assert trace.ops[0].outputs[0].shape == (2, 3)  # -7 / 2 = -3, and 5 more are 2; downwards it would be 1


# Structure


def test_no_two_front_end_modules_need_each_other() -> None:
    needs: dict[str, set[str]] = {}
    for path in FRONT_ENDS.rglob("*.py"):
        parts = path.relative_to(FRONT_ENDS).with_suffix("").parts
        name = ".".join(("simdevice", "frontends", *(p for p in parts if p != "__init__")))
        needs[name] = _imports(ast.parse(path.read_text()))
    for name, others in needs.items():
        inside = set()
        for other in others:
            # `from package import module` names the package and a module of it; a package's own parts aren't a circle
            if other in needs and other != name and not name.startswith(f"{other}."):
                inside.add(other)
        needs[name] = inside
    assert "simdevice.frontends.onnx.values" in needs["simdevice.frontends.onnx.shapes"]
    TopologicalSorter(needs).prepare()  # raises CycleError with the circle


def _imports(tree: ast.AST) -> set[str]:
    """Modules imported anywhere in a file, late ones too, but for types."""
    checking = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.unparse(block.test)
        for node in ast.walk(block)
    }
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and id(node) not in checking:
            names.add(node.module or "")
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names
