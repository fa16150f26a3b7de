"""Lists of operators: what they say is what a trace of the same operators says; what they can't be is one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import simdevice as sd
from simdevice.errors import CaptureError, FileFormatError, SpecError, UncostedOperatorError

BFLOAT16 = {"dtype": "bfloat16"}
ATTENTION: list[dict[str, Any]] = [
    {
        "name": "aten.bmm",
        "inputs": [{"shape": [12, 128, 64], **BFLOAT16}, {"shape": [12, 64, 128], **BFLOAT16}],
        "outputs": [{"name": "scores", "shape": [12, 128, 128], **BFLOAT16}],
    },
    {
        "name": "aten._softmax",
        "inputs": ["scores"],
        "outputs": [{"name": "weights", "shape": [12, 128, 128], **BFLOAT16}],
        "attributes": {"dim": -1, "half_to_float": False},
    },
    {
        "name": "aten.bmm",
        "inputs": ["weights", {"shape": [12, 128, 64], **BFLOAT16}],
        "outputs": [{"name": "mixed", "shape": [12, 128, 64], **BFLOAT16}],
    },
]


def dispatched() -> Any:
    def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return torch.bmm(torch.ops.aten._softmax(torch.bmm(q, k), -1, False), v)

    q, k, v = (
        torch.zeros(s, dtype=torch.bfloat16, device="meta") for s in ((12, 128, 64), (12, 64, 128), (12, 128, 64))
    )
    return sd.trace(attention, q, k, v, scopes=False)


def test_a_list_says_what_a_dispatch_trace_says(tmp_path: Path) -> None:
    (tmp_path / "attention.json").write_text(json.dumps(ATTENTION))
    traced = dispatched()
    for given in (ATTENTION, tmp_path / "attention.json"):
        listed = sd.trace(given)
        assert [(op.signature, op.cost) for op in listed.ops] == [(op.signature, op.cost) for op in traced.ops]
        # two products of 12 x 128 x 64 x 128 multiply-adds
        assert listed.matmul_flops == 2 * 2 * 12 * 128 * 64 * 128
        # which row waits for which: the softmax reads what the first product wrote, the second what the softmax did
        ids = [([t.id for t in op.inputs], [t.id for t in op.outputs]) for op in listed.ops]
        assert ids[1][0] == ids[0][1]
        assert ids[2][0][0] == ids[1][1][0]
        for device in ("h100", "edge-npu"):
            a, b = sd.device(device).run(listed), sd.device(device).run(traced)
            assert a.time_s == b.time_s
            assert a.time_s > 0
        assert listed.origin.path == traced.origin.path


def changed(position: int, **fields: Any) -> list[dict[str, Any]]:
    return [{**op, **fields} if n == position else op for n, op in enumerate(ATTENTION)]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "expected at least one operator"),
        ([3], r"operator 0: : Input should be .*, got 3"),
        (
            changed(1, inputs=["score"]),
            r"operator 1 \(.*\): unknown tensor 'score': did you mean 'scores'\?",
        ),
        (changed(1, attributes={"dim": -1}), r"operator 1 \(aten._softmax\): give 'half_to_float' in its attributes"),
        (
            changed(1, attributes={"dum": -1}),
            r"operator 1 \(.*\): unknown attribute 'dum': did you mean 'dim'\?",
        ),
        (changed(2, inputs=["weights"]), r"operator 2 \(aten.bmm\): its input 'mat2' is missing"),
        (changed(2, inputs=["weights"] * 3), r"operator 2 \(aten.bmm\): it takes 2 inputs, got 3"),
        (
            changed(2, inputs=["weights", {"shape": [12, 64, 64], **BFLOAT16}]),
            r"operator 2 \(aten.bmm\): PyTorch doesn't take these inputs: .*",
        ),
        (
            changed(2, outputs=[{"shape": [12, 128, 65], **BFLOAT16}]),
            r"operator 2 \(aten.bmm\): its outputs are 12x128x64 bfloat16, the list says 12x128x65 bfloat16",
        ),
        (changed(0, outputs=[{"shape": [-1], **BFLOAT16}]), r"operator 0: outputs.*greater than or equal to 0, got -1"),
        (changed(0, inputs=[{"shape": [1], "dtype": "bf16"}]), r"operator 0 \(aten.bmm\): unknown dtype 'bf16'.*"),
        (changed(0, input=[]), r"operator 0: input: Extra inputs are not permitted"),
        (changed(2, outputs=[ATTENTION[0]["outputs"][0]]), r"operator 2 .*: tensor 'scores' is described already: .*"),
    ],
)
def test_what_cannot_be_is_one_line_with_its_position(given: Any, message: str) -> None:
    with pytest.raises(SpecError, match=f"^{message}$"):
        sd.trace(given)


def test_an_unknown_operator_has_a_reason_and_the_nearest_name() -> None:
    for name, reason in (
        ("aten.softmaxx", "PyTorch has no such operator: did you mean 'aten.softmax'?"),
        ("onnx.MatMull", "no cost rule: did you mean 'onnx.MatMul'?"),
        ("fhe.nt", "no cost rule: did you mean 'fhe.ntt'?"),
    ):
        trace = sd.trace(changed(0, name=name))
        assert trace.is_lower_bound
        assert trace.unknown() == {name: reason}
        with pytest.raises(UncostedOperatorError, match=f"^no cost for '{name}': "):
            sd.trace(changed(0, name=name), strict=True)


def test_onnx_operators_cost_what_a_file_of_them_does() -> None:
    from onnx import parser

    from simdevice.frontends.onnx import walk

    text = """<ir_version: 10, opset_import: ["": 21]>
    g (float[2,3,8,8] x, float[4,3,3,3] w) => (float[2,4,8,8] y) { c = Conv<pads = [1, 1, 1, 1]>(x, w)  y = Relu(c) }"""
    walked, _ = walk(parser.parse_model(text))
    f32 = {"dtype": "float32"}
    listed = sd.trace(
        [
            {
                "name": "onnx.Conv",
                "inputs": [{"shape": [2, 3, 8, 8], **f32}, {"shape": [4, 3, 3, 3], **f32}],
                "outputs": [{"name": "c", "shape": [2, 4, 8, 8], **f32}],
                "attributes": {"pads": [1, 1, 1, 1]},
            },
            {"name": "onnx.Relu", "inputs": ["c"], "outputs": [{"shape": [2, 4, 8, 8], **f32}]},
        ]
    )
    assert [(op.signature, op.cost) for op in listed.ops] == [(op.signature, op.cost) for op in walked.ops]
    # 2 x 4 x 8 x 8 results of 3 x 3 x 3 multiply-adds
    assert listed.ops[0].flops == 2 * 2 * 4 * 64 * 27


def test_a_view_is_its_input_looked_at_otherwise() -> None:
    f32 = {"dtype": "float32"}
    trace = sd.trace(
        [
            {
                "name": "aten.t",
                "inputs": [{"shape": [4, 8], "weight": True, **f32}],
                "outputs": [{"name": "w", "shape": [8, 4], **f32}],
            },
            {"name": "aten.mm", "inputs": [{"shape": [2, 8], **f32}, "w"], "outputs": [{"shape": [2, 4], **f32}]},
        ]
    )
    assert trace.ops[1].inputs[1].is_weight
    assert trace.ops[1].inputs[1].id == trace.ops[0].inputs[0].id
    assert trace.weight_bytes == 4 * 8 * 4


def test_a_damaged_file_and_another_front_end_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "l.json").write_text("[{")
    with pytest.raises(FileFormatError, match=r"^.*l.json is not JSON: [^\n]*$"):
        sd.trace(tmp_path / "l.json")
    with pytest.raises(CaptureError, match=r"^the 'dispatch' front end can't take a list of operators .* stand\)$"):
        sd.trace(ATTENTION, frontend="dispatch")
    with pytest.raises(CaptureError, match=r"^the 'operators' front end can't take a callable \(.*neg\): "):
        sd.trace(torch.neg, torch.ones(2), frontend="operators")
