"""One operator followed from dispatch, from the live device and from an ONNX node to the report.

The figures are those of docs/architecture.md.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from onnx import TensorProto, helper, save

import simdevice as sd
from simdevice.records import Trace
from simdevice.records.program import UNITS

ROWS, WIDE, NARROW = 128, 64, 10


def by_dispatch(folder: Path) -> Trace:
    return sd.trace(torch.nn.Linear(WIDE, NARROW), torch.ones(ROWS, WIDE))


def by_the_live_device(folder: Path) -> Trace:
    layer, rows = torch.nn.Linear(WIDE, NARROW).to("simacc"), torch.ones(ROWS, WIDE, device="simacc")
    with torch.no_grad(), torch.simacc.record() as rec:
        layer(rows)
    return rec.trace


def by_an_onnx_node(folder: Path) -> Trace:
    shapes = {"x": (ROWS, WIDE), "y": (ROWS, NARROW)}
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items())
    held = [
        helper.make_tensor(name, TensorProto.FLOAT, shape, [0.5] * (shape[0] * (shape[1] if len(shape) > 1 else 1)))
        for name, shape in (("w", (WIDE, NARROW)), ("b", (NARROW,)))
    ]
    graph = helper.make_graph([helper.make_node("Gemm", ["x", "w", "b"], ["y"])], "linear", [x], [y], held)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "linear.onnx")
    return sd.trace(str(folder / "linear.onnx"))


@pytest.mark.parametrize("road", [by_dispatch, by_the_live_device, by_an_onnx_node])
def test_the_same_work_arrives_by_every_road(road: object, tmp_path: Path) -> None:
    trace = road(tmp_path)  # type: ignore[operator]
    (op,) = (op for op in trace.ops if op.category == "matmul")
    (product,) = op.cost.products
    assert (product.batch, product.m, product.k, product.n) == (1, 128, 64, 10)
    # 2 x 128 x 64 x 10, and 128 x 10 for the bias
    assert (product.flops, [(e.name, e.flops) for e in op.cost.extras]) == (163_840, [("bias", 1_280)])
    # x 32,768, W 2,560, b 40; y 5,120
    assert (op.cost.bytes_read, op.cost.bytes_written, op.cost.weight_bytes) == (35_368, 5_120, 2_600)

    for device, beside in (("edge-npu", 40), ("published/edge-npu", 0)):
        run = sd.device(device).run(trace.select(trace.per_op("flops") > 0))
        assert run.program is not None
        assert int(run.program.column("operand_bytes").sum()) == 32_768 + 2_560 + beside
        assert UNITS[run.program.column("unit")[0]] == "array"
        assert f"{run.tiles} tiles" in repr(run)
        assert "matmul" in run.to_markdown()
