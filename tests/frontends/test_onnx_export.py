"""PyTorch modules exported without their weights: the same arithmetic, files that run once the weights are given."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from small_models import NAMES, SCORES, arithmetic, lstm, small

import simdevice as sd
from simdevice.frontends import Workload
from simdevice.frontends.onnx.export import ExportedModel, export_model, save
from simdevice.records import Trace


@cache
def exported(name: str) -> ExportedModel:
    return export_model(lstm("cpu") if name == "lstm" else small(name, "cpu"))


@cache
def by_onnx_on_meta(name: str) -> Trace:
    return sd.trace(small(name, "meta"), frontend="onnx")


def biases(trace: Trace) -> int:
    """1 per output element where a product adds a bias itself: Gemm, addmm, convolutions."""
    return sum(
        op.outputs[0].numel
        for op in trace.ops
        if op.name == "aten.addmm" or (op.name in ("onnx.Gemm", "onnx.Conv", "aten.convolution") and len(op.inputs) > 2)
    )


@pytest.mark.parametrize("name", NAMES)
def test_onnx_and_dispatch_agree_on_multiply_adds_and_weights(name: str) -> None:
    by_dispatch, by_onnx = sd.trace(small(name, "meta"), flop_counter=True), by_onnx_on_meta(name)
    products, weights = arithmetic(by_onnx, SCORES[name])
    # a linear layer of three dimensions is a MatMul and an Add in ONNX, so biases are counted there
    assert products - biases(by_onnx) == by_dispatch.origin.flop_counter
    assert weights == by_dispatch.weight_bytes
    assert by_onnx.unknown() == {}


def test_an_lstm_is_one_operator_and_costs_what_pytorchs_does() -> None:
    by_dispatch, by_onnx = sd.trace(lstm("cpu")), sd.trace(lstm("cpu"), frontend="onnx")
    assert by_onnx.flops == by_dispatch.flops
    assert by_onnx.weight_bytes == by_dispatch.weight_bytes
    assert [op.name for op in by_onnx.ops].count("onnx.LSTM") == 2


@pytest.mark.parametrize("name", [*NAMES, "lstm"])
def test_onnx_runtime_runs_the_export_and_matches(name: str) -> None:
    import onnxruntime as ort

    found = exported(name)
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(found.model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    given = [v for v in (*found.workload.args, *found.workload.kwargs.values()) if isinstance(v, torch.Tensor)]
    asked = [i.name for i in found.model.graph.input if i.name not in found.stored]
    feeds = {n: t.detach().numpy() for n, t in found.stored.items()}
    feeds |= {n: t.numpy() for n, t in zip(asked, given, strict=True)}
    with torch.no_grad():
        expected: Any = found.workload.program(*found.workload.args, **found.workload.kwargs)
    expected = expected if isinstance(expected, torch.Tensor) else expected[0]
    np.testing.assert_allclose(session.run(None, feeds)[0], expected.numpy(), atol=1e-4, rtol=0)


def test_weights_are_typed_inputs_and_nothing_is_stored() -> None:
    found = exported("bert")
    inputs = {i.name: i for i in found.model.graph.input}
    assert len(found.model.graph.initializer) == 0
    assert found.weights <= set(inputs)
    weight = inputs["bert.encoder.layer.0.attention.self.query.weight"].type.tensor_type
    assert [d.dim_value for d in weight.shape.dim] == [64, 64]
    assert found.model.ByteSize() < 200_000


def test_tied_parameters_are_one_input_under_a_known_alias() -> None:
    found = exported("gpt2")
    (alias, owner), *_ = found.aliases.items()
    assert {alias, owner} == {"transformer.wte.weight", "lm_head.weight"}
    assert owner in found.weights
    assert alias not in {i.name for i in found.model.graph.input}


def test_a_saved_export_says_what_its_inputs_are(tmp_path: Path) -> None:
    workload = small("llama", "cpu")
    save(workload, tmp_path / "llama.onnx")
    assert [p.name for p in tmp_path.iterdir()] == ["llama.onnx"]
    from_file, directly = sd.trace(str(tmp_path / "llama.onnx")), sd.trace(workload, frontend="onnx")
    assert from_file.rows == directly.rows
    assert from_file.weight_bytes == directly.weight_bytes > 0
    assert from_file.origin.frontend == "onnx"
    onnx.checker.check_model(onnx.load(tmp_path / "llama.onnx"))


def test_scopes_are_module_paths() -> None:
    trace = by_onnx_on_meta("llama")
    assert "model.layers.1.mlp.down_proj" in {op.scope for op in trace.ops if op.category == "matmul"}


def test_buffers_are_constants_and_no_weights() -> None:
    trace = by_onnx_on_meta("cnn")
    norm = next(op for op in trace.ops if op.name == "onnx.BatchNormalization")
    assert [t.is_weight for t in norm.inputs] == [False, True, True, False, False]


def test_rotary_frequencies_are_folded_as_a_runtime_would() -> None:
    # inverse frequencies (a buffer) times positions (from the shape): no cosine is left to compute
    trace = by_onnx_on_meta("llama")
    assert not {"onnx.Cos", "onnx.Sin"} & {op.name for op in trace.ops}


def test_tiny_cnn_is_fourteen_operators() -> None:
    trace = sd.trace("tiny-cnn", frontend="onnx")
    assert len(trace) == 14
    # Torch_Sim_Frontend, examples/accel_results.md: 99.96 us
    assert round(sd.device("published/edge-npu").run(trace).time_s * 1e6, 2) == 99.96


def test_a_program_that_cannot_be_exported_is_one_line() -> None:
    from simdevice.errors import CaptureError

    def branches(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.sum() > 0 else x

    with pytest.raises(CaptureError, match=r"^torch\.export can't follow this program"):
        sd.trace(Workload(branches, (torch.ones(2),)), frontend="onnx")


@torch.library.custom_op("simdevicetests::of_nobody", mutates_args=())
def of_nobody(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


@of_nobody.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


def test_the_exporters_innermost_reason_is_said_without_its_colours() -> None:
    from simdevice.errors import CaptureError

    with pytest.raises(CaptureError, match=r"^torch\.onnx can't export this program: [^\n\x1b]*of_nobody[^\n\x1b]*$"):
        sd.trace(Workload(lambda x: of_nobody(x) + 1, (torch.ones(2),)), frontend="onnx")


LLAMA = """
import os, resource, sys
import simdevice as sd
from simdevice.frontends.onnx.export import save
workload = sd.models.prefill(sd.models.build("llama3-8b"), 2048)
save(workload, sys.argv[1])
trace = sd.trace(sys.argv[1])
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(os.path.getsize(sys.argv[1]), trace.matmul_flops, trace.weight_bytes, trace.bytes, len(trace.unknown()), peak)
"""


@pytest.mark.slow
def test_llama3_8b_without_its_weights(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LLAMA, str(tmp_path / "llama.onnx")], capture_output=True, text=True, check=True
    )
    size, flops, weights, moved, unknown, peak = (int(n) for n in done.stdout.split())
    assert size < 12_000_000
    # 2 x 7,504,658,432 matmul parameters x 2,048 tokens + 4 x 32 layers x 4,096 x 2,048^2
    assert flops == 32_938_104_193_024
    assert weights == 15_026_626_560
    # Torch_Sim_Frontend, examples/results.md: 169.10 GB. 32 casts of the mask (2,048^2) to the type it has already
    # are free here, and were 16,777,216 bytes each.
    assert abs((moved + 32 * 16_777_216) / 1e9 - 169.10) < 0.01
    assert unknown == 0
    assert peak < 2 * 2**30
