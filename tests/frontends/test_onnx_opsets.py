"""Operator types of a file and the opset that brought each; ONNX's own schemas are the oracle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from simdevice.cli import _run
from simdevice.errors import SpecError
from simdevice.frontends.onnx.opsets import OperatorType, check_opset, operator_types


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Opset 20: Gelu is of 20, LayerNormalization of 17, Relu in its form of 14; FastGelu is a runtime's own. The If's
    bodies hold one Mish each, of 18."""
    value = helper.make_tensor_value_info
    body = helper.make_graph([helper.make_node("Mish", ["c"], ["d"])], "b", [], [value("d", TensorProto.FLOAT, [2, 8])])
    nodes = [
        helper.make_node("LayerNormalization", ["x", "s"], ["a"]),
        helper.make_node("Gelu", ["a"], ["b"]),
        helper.make_node("FastGelu", ["b"], ["c"], domain="com.microsoft"),
        helper.make_node("If", ["q"], ["e"], then_branch=body, else_branch=body),
        helper.make_node("Relu", ["e"], ["y"]),
    ]
    inputs = [
        value("x", TensorProto.FLOAT, [2, 8]),
        value("s", TensorProto.FLOAT, [8]),
        value("q", TensorProto.BOOL, []),
    ]
    graph = helper.make_graph(nodes, "g", inputs, [value("y", TensorProto.FLOAT, [2, 8])])
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), tmp_path / "m.onnx")
    return str(tmp_path / "m.onnx")


def test_types_with_their_opsets_those_in_bodies_too(path: str) -> None:
    assert operator_types(path) == (
        OperatorType("ai.onnx", "Gelu", 1, 20, 20),
        OperatorType("ai.onnx", "If", 1, 20, 19),
        OperatorType("ai.onnx", "LayerNormalization", 1, 20, 17),
        OperatorType("ai.onnx", "Mish", 2, 20, 18),
        OperatorType("ai.onnx", "Relu", 1, 20, 14),
        OperatorType("com.microsoft", "FastGelu", 1, 1, None),
    )


@pytest.mark.parametrize(
    ("opset", "refused"),
    [
        (13, "Gelu, If, LayerNormalization, Mish, Relu, FastGelu"),
        (17, "Gelu, If, Mish, FastGelu"),
        (18, "Gelu, If, FastGelu"),
        (20, "FastGelu"),
    ],
)
def test_what_a_target_refuses_that_stops_at_an_opset(opset: int, refused: str, path: str, capsys: Any) -> None:
    assert _run(["coverage", path, "--opset", str(opset)]) == 0
    assert f"A target that stops at opset {opset} refuses {refused}." in capsys.readouterr().out
    assert _run(["coverage", path, "--opset", str(opset), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["operator_types"]
    assert [row["type"] for row in rows if row["target"] == "refused"] == refused.split(", ")


def test_a_file_is_shown_its_types_without_a_target_too(path: str, capsys: Any) -> None:
    assert _run(["coverage", path, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["operator_types"]
    assert [row["since"] for row in rows] == [20, 19, 17, 18, 14, None]


def test_an_opset_that_is_none_and_a_program_that_has_none(path: str, capsys: Any) -> None:
    newest = onnx.defs.onnx_opset_version()
    check_opset(newest)
    for opset in (0, newest + 1):
        with pytest.raises(SpecError, match=f"expected an opset from 1 to {newest}, .* got {opset}"):
            check_opset(opset)
    assert _run(["coverage", "tiny-cnn", "--opset", "17"]) == 2
    assert capsys.readouterr().err == "simacc: --opset goes with an ONNX file, not with tiny-cnn\n"
