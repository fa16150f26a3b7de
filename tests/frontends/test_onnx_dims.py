"""Sizes that an ONNX file leaves open: what can be bound, what contradicts the file, what is too large."""

from __future__ import annotations

import math
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser

import simdevice as sd
from simdevice.analysis.liveness import liveness
from simdevice.cli import _run
from simdevice.errors import OpenDimensionsError, SizeError, SpecError
from simdevice.records import Cost, OpTable, Origin, Signature, TensorSpec, TraceBuilder

PICTURE = "g (float[batch, 3, 224, 224] x, float[batch, n] z) => (float[batch, 3, 224, 224] y) { y = Relu(x) }"


def save(folder: Path, graph: str) -> str:
    path = folder / "m.onnx"
    onnx.save(parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {graph}'), path)
    return str(path)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"x": (1, 4, 224, 224), "n": 1}, r"input 'x' is batchx3x224x224: got 1x4x224x224"),
        ({"x": (1, 3, 224), "n": 1}, r"input 'x' has 4 dimensions, batchx3x224x224: got 1x3x224"),
        ({"x": 5, "n": 1}, r"input 'x' has 4 dimensions, batchx3x224x224: got 5"),
        ({"x": (2, 3, 224, 224), "batch": 1, "n": 1}, r"dimension 'batch' can't be 1 and 2: input 'x' is 2x3x224x224"),
        (
            {"x": (2, 3, 224, 224), "z": (3, 1)},
            r"dimension 'batch' can't be 2 and 3|dimension 'batch' can't be 3 and 2",
        ),
        ({"batch": 0, "n": 1}, r"expected a whole number from 1 to 2\^63 - 1 for dimension 'batch', got 0"),
        ({"batch": -1, "n": 1}, r"dimension 'batch', got -1"),
        ({"batch": 2**63, "n": 1}, r"dimension 'batch', got 9223372036854775808"),
        ({"batch": True, "n": 1}, r"dimension 'batch', got True"),
        ({"batch": 1.5, "n": 1}, r"dimension 'batch', got 1.5"),
        ({"batch": (1, 2), "n": 1}, r"expected one size for dimension 'batch', got \(1, 2\)"),
        ({"x": (1, 0, 224, 224), "n": 1}, r"dimension 'x', got 0"),
    ],
)
def test_what_contradicts_the_file_is_refused(given: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=said):
        sd.trace(save(tmp_path, PICTURE), dims=given)


def test_a_whole_shape_gives_the_dimensions_in_it(tmp_path: Path) -> None:
    # z's batch is x's, so that only n is left to be said.
    path = save(
        tmp_path, PICTURE.replace("y = Relu(x)", "w = Relu(z) y = Relu(x)").replace("=> (", "=> (float[batch, n] w, ")
    )
    operators = sd.trace(path, dims={"x": (2, 3, 224, 224), "n": 5}).ops
    assert {op.inputs[0].shape for op in operators} == {(2, 5), (2, 3, 224, 224)}


def test_a_size_computed_from_others_can_be_impossible(tmp_path: Path) -> None:
    path = save(tmp_path, "g (float[total, past] k) => (float[total, past] y) { y = Relu(k) }")
    model = onnx.load(path)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "past - seq"
    onnx.save(model, path)
    with pytest.raises(SpecError, match=r"dimension 'past - seq' is -2, with past = 3, seq = 5"):
        sd.trace(path, dims={"past": 3, "seq": 5})


def test_the_hint_repeats_the_users_own_command(tmp_path: Path, capsys: Any) -> None:
    path = save(tmp_path, PICTURE)
    command = ["simulate", path, "--device", "edge-npu", "--set", "buffer_bytes=1 MiB", "--dim", "batch=2"]
    assert _run(command) == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert said == f"simacc: {path}: 1 dimension is open (the size is an example): " + shlex.join(
        ["simacc", *command, "--dim", "n=128"]
    )
    assert _run(shlex.split(said.partition(": simacc ")[2])) == 0
    with pytest.raises(OpenDimensionsError) as raised:
        sd.trace(path, dims={"batch": 2})
    assert raised.value.examples == {"n": "128"}
    assert str(raised.value).endswith(f"simacc trace {path} --dim n=128")


# Sizes that no column holds

SQUARE = "g (float[n, n] x) => (float[n, n] y) { y = Relu(x) }"


@pytest.mark.parametrize("command", ["trace", "cost", "simulate", "coverage"])
def test_sizes_beyond_an_int64_are_one_line_with_the_node(command: str, tmp_path: Path, capsys: Any) -> None:
    path = save(tmp_path, SQUARE)
    model = onnx.load(path)
    model.graph.node[0].name = "r"
    onnx.save(model, path)
    assert _run([command, path, "--dim", "n=4000000000"]) == 2  # 4e9 * 4e9 * 4 = 6.4e19 bytes
    assert capsys.readouterr().err == (
        "simacc: node 'r' (Relu): onnx.Relu: a tensor 4000000000x4000000000 float32 has more than 2^63 - 1 bytes\n"
    )


def table() -> OpTable:
    return OpTable(lambda signature: Cost("elementwise", signature.outputs[0].numel, 0, 0))


def relu(*shape: int) -> Signature:
    tensor = TensorSpec(shape, "float32")
    return Signature("aten.relu", (tensor,), (tensor,))


def test_each_number_of_a_cost_fits_or_is_named() -> None:
    costs = table()
    edge = math.isqrt(2**61 - 1)
    assert costs.intern(relu(edge, edge)) == 0
    with pytest.raises(SizeError, match=r"a tensor 2305843009213693952 float32 has more than 2\^63 - 1 bytes"):
        costs.intern(relu(2**61))  # 2^61 * 4 = 2^63
    many = OpTable(lambda _: Cost("matmul", 2**63, 0, 0))
    with pytest.raises(SizeError, match=r"aten.relu\(2x3\): 9.22e\+18 FLOPs are more than 2\^63 - 1"):
        many.intern(relu(2, 3))
    assert len(costs) == 1
    assert len(many) == 0


def test_sums_that_do_not_fit_are_said_and_those_that_do_are_exact() -> None:
    def trace(rows: int) -> sd.Trace:
        builder = TraceBuilder(table())
        for i in range(rows):
            builder.add(relu(2**60), (2 * i, 2 * i + 1))  # 2^60 FLOPs, 2^62 bytes a tensor
        return builder.finish(Origin("none"))

    assert trace(7).flops == 7 * 2**60
    with pytest.raises(SizeError, match=r"all operators' FLOPs add up to more than 2\^63 - 1"):
        trace(8).flops  # noqa: B018  # 8 * 2^60 = 2^63
    with pytest.raises(SizeError, match="all operators' bytes alive add up"):
        liveness(trace(1))  # 2^62 + 2^62


def test_time_that_no_column_holds_is_said(tmp_path: Path) -> None:
    # 1e9 squared: 4e18 bytes each way; at 100 GB/s 8e7 s, where 2^63 ps are 9.2e6 s.
    path = save(tmp_path, SQUARE)
    with pytest.raises(SizeError, match=r"onnx.Relu: it would take more than 2\^63 - 1 ps"):
        sd.devices.get("h100", dram_bandwidth_bytes_per_s="100 GB/s").run(sd.trace(path, dims={"n": 1_000_000_000}))


def test_what_a_shell_would_take_apart_is_quoted() -> None:
    assert OpenDimensionsError("m.onnx", {"a b": "1"}).with_command(["simacc", "cost", "my m.onnx"]) == (
        "m.onnx: 1 dimension is open (the size is an example): simacc cost 'my m.onnx' --dim 'a b=1'"
    )


def test_contents_and_dimensions_agree(tmp_path: Path) -> None:
    path = save(tmp_path, "g (float[n] x, float[n] z) => (float[n] y) { y = Add(x, z) }")
    (add,) = sd.trace(path, inputs={"x": np.zeros(7, np.float32)}).ops
    assert add.inputs[1].shape == (7,)
