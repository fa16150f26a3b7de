"""Files: real models that packages ship, open dimensions, weights in other files, and what is wrong with a file."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_models import installed, save

import simdevice as sd
from simdevice.cli import _run
from simdevice.errors import CaptureError, FileFormatError, SpecError, UnknownNameError
from simdevice.records import Trace

# The 8 kHz half of a voice detector needs another length; a state's open dimension is the batch.
REAL: dict[str, tuple[str, str, dict[str, int], dict[str, Any]]] = {
    "magika": ("magika", "models/standard_v3_3/model.onnx", {"unk__214": 1}, {}),
    "silero_vad": (
        *("silero_vad", "data/silero_vad.onnx", {"input.0": 1, "input.1": 512, "state.1": 1}),
        {"sr": np.array(16000)},
    ),
    "silero_vad_16k_sequence": ("silero_vad", "data/silero_vad_16k_sequence.onnx", {"sequence_length": 4}, {}),
    "silero_vad_16k_op15": ("silero_vad", "data/silero_vad_16k_op15.onnx", {"batch": 1, "sequence": 512}, {}),
    "silero_vad_half": ("silero_vad", "data/silero_vad_half.onnx", {"batch": 1, "sequence": 512}, {}),
    "silero_vad_op18_ifless": (
        *("silero_vad", "data/silero_vad_op18_ifless.onnx", {"batch": 1, "sequence": 512}),
        {"sr": np.array(16000)},
    ),
    "silero_vad_openvino_16k": ("silero_vad", "data/silero_vad_openvino_16k.onnx", {}, {}),
    "swift_f0": ("swift_f0", "model.onnx", {"samples": 16000}, {}),
    "basic_pitch": ("basic_pitch", "saved_models/icassp_2022/nmp.onnx", {"unk__749": 1}, {}),
}

LIGHT = sorted((installed("onnx") / "backend/test/data/light").glob("light_*.onnx"))


def real(name: str, **options: Any) -> Trace:
    package, file, dims, inputs = REAL[name]
    return sd.trace(str(installed(package) / file), dims=dims, inputs=inputs, **options)


def products(trace: Trace) -> list[tuple[Any, ...]]:
    """Every product and convolution with its shapes."""
    kept = ("matmul", "convolution")
    return [
        (op.name, [t.shape for t in op.inputs], [t.shape for t in op.outputs], op.flops)
        for op in trace.ops
        if op.category in kept
    ]


@pytest.mark.parametrize("name", REAL)
def test_a_shipped_model_walks_and_a_run_sees_the_same(name: str) -> None:
    trace, ran = real(name), real(name, shapes="run")
    assert trace.unknown() == ran.unknown() == {}
    assert products(trace) == products(ran)
    assert (trace.flops, trace.bytes, trace.weight_bytes) == (ran.flops, ran.bytes, ran.weight_bytes)
    assert trace.flops_in("matmul", "convolution") > 0


def test_no_shipped_voice_detector_is_left_out() -> None:
    shipped = {path.stem for path in (installed("silero_vad") / "data").glob("*.onnx")}
    assert shipped <= set(REAL)


@pytest.mark.parametrize("path", LIGHT, ids=lambda p: p.stem)
def test_a_light_model_of_onnx_walks_and_a_run_sees_the_same(path: Path) -> None:
    trace, ran = sd.trace(str(path)), sd.trace(str(path), shapes="run")
    assert trace.unknown() == ran.unknown() == {}
    assert products(trace) == products(ran)
    assert (trace.flops, trace.bytes) == (ran.flops, ran.bytes)


@pytest.mark.parametrize(
    ("name", "multiply_adds", "parameters"),
    [
        # He et al. 2015, table 1; Huang et al. 2016; Simonyan and Zisserman 2014: 4.1, 2.8 and 19.6 thousand million,
        # counted layer by layer for 224 x 224 pictures
        ("light_resnet50", 4_089_184_256, 25_557_032),
        ("light_densenet121", 2_834_161_664, 7_978_856),
        ("light_vgg19", 19_632_062_464, 143_667_240),
    ],
)
def test_multiply_adds_of_published_networks(name: str, multiply_adds: int, parameters: int) -> None:
    trace = sd.trace(str(installed("onnx") / f"backend/test/data/light/{name}.onnx"))
    biases = sum(
        op.outputs[0].numel for op in trace.ops if op.category in ("matmul", "convolution") and len(op.inputs) > 2
    )
    assert trace.flops_in("matmul", "convolution") == 2 * multiply_adds + biases
    # running statistics are stored beside the parameters
    assert parameters * 4 <= trace.weight_bytes < parameters * 4 * 1.05


def test_nested_branches_follow_the_sampling_rate() -> None:
    package, file, dims, _ = REAL["silero_vad"]
    path = str(installed(package) / file)
    by_rate = {
        rate: sd.trace(path, dims={**dims, "input.1": size}, inputs={"sr": np.array(rate)}, shapes="run")
        for rate, size in ((16000, 512), (8000, 256))
    }
    assert by_rate[8000].weight_bytes < by_rate[16000].weight_bytes
    assert all(t.origin.notes == () for t in by_rate.values())
    unsaid = sd.trace(path, dims=dims)
    assert unsaid.flops == by_rate[16000].flops
    assert "the costliest is shown" in unsaid.origin.notes[0]


# Open dimensions

OPEN = "g (float[batch, 3, N] x, float[batch, ?] z) => (float[batch, 3, N] y) { y = Relu(x) }"


def test_the_command_that_binds_open_dimensions_is_the_message(tmp_path: Path, capsys: Any) -> None:
    path = save(tmp_path, "g (float[batch, 3, seq] x) => (float[batch, 3, seq] y) { y = Relu(x) }")
    assert _run(["trace", path]) == 2
    message = capsys.readouterr().err
    flags = "--dim batch=1 --dim seq=128"
    assert message == f"simacc: {path}: 2 dimensions are open (the sizes are examples): simacc trace {path} {flags}\n"
    command = shlex.split(message.split(": simacc ")[1])
    assert _run(command) == 0


def test_bound_dimensions_are_everywhere(tmp_path: Path) -> None:
    path = save(
        tmp_path,
        "g (float[batch, seq] x, float[batch, seq] z) => (float[batch, seq] y) { y = Add(x, z) }",
    )
    (add,) = sd.trace(path, dims={"batch": 2, "seq": 5}).ops
    assert [t.shape for t in add.inputs] == [(2, 5), (2, 5)]


def test_dimensions_without_a_name_are_input_and_axis(tmp_path: Path) -> None:
    path = save(tmp_path, "g (float[?, 3] x, float[?, 3] z) => (float[?, 3] y) { y = Concat<axis = 0>(x, z) }")
    model = onnx.load(path)
    for value in model.graph.input:  # the same meaningless name, as exporters write it
        value.type.tensor_type.shape.dim[0].dim_param = "?"
    onnx.save(model, path)
    with pytest.raises(CaptureError, match=r"--dim x\.0=1 --dim z\.0=1$"):
        sd.trace(path)
    (concat,) = sd.trace(path, dims={"x.0": 2, "z.0": 4}).ops
    assert concat.outputs[0].shape == (6, 3)


def test_a_dimension_computed_from_others_needs_none_of_its_own(tmp_path: Path) -> None:
    path = save(tmp_path, "g (float[batch, past] k, float[batch, total] m) => (float[batch, total] y) { y = Relu(m) }")
    model = onnx.load(path)
    model.graph.input[1].type.tensor_type.shape.dim[1].dim_param = "past + seq"
    model.graph.output[0].type.tensor_type.shape.dim[1].dim_param = "past + seq"
    onnx.save(model, path)
    with pytest.raises(CaptureError, match=r"3 dimensions are open .* --dim batch=1 --dim past=128 --dim seq=128$"):
        sd.trace(path)
    assert sd.trace(path, dims={"batch": 2, "past": 7, "seq": 1}).ops[0].outputs[0].shape == (2, 8)


def test_an_input_without_a_rank_is_bound_whole(tmp_path: Path) -> None:
    path = save(tmp_path, "g (float x) => (float y) { y = Relu(x) }")
    model = onnx.load(path)
    model.graph.input[0].type.tensor_type.ClearField("shape")
    onnx.save(model, path)
    with pytest.raises(CaptureError, match=r"--dim x=1x3x224x224$"):
        sd.trace(path)
    assert sd.trace(path, dims={"x": (2, 3)}).ops[0].outputs[0].shape == (2, 3)


def test_given_inputs_bring_their_sizes(tmp_path: Path) -> None:
    path = save(tmp_path, "g (float[n] x, float[n] z) => (float[n] y) { y = Add(x, z) }")
    (add,) = sd.trace(path, inputs={"x": np.zeros(7, np.float32)}).ops
    assert add.inputs[1].shape == (7,)


def test_wrong_names_and_sizes_are_said(tmp_path: Path) -> None:
    path = save(tmp_path, "g (float[batch, 3] x) => (float[batch, 3] y) { y = Relu(x) }")
    with pytest.raises(UnknownNameError, match=r"unknown dimension of .* 'batsh': did you mean 'batch'"):
        sd.trace(path, dims={"batsh": 1})
    with pytest.raises(UnknownNameError, match="unknown input 'X'"):
        sd.trace(path, inputs={"X": np.zeros((1, 3), np.float32)})
    said = r"^dims \(--dim\) is no option of a model name \(gpt2\): it goes with an ONNX file or an exported program$"
    with pytest.raises(SpecError, match=said):
        sd.trace("gpt2", dims={"batch": 1})
    said = r"^tokens is no option of an ONNX file \(.*\): it goes with a model name, a configuration file or a module$"
    with pytest.raises(SpecError, match=said):
        sd.trace(path, tokens=4)


# Weights elsewhere


def external(folder: Path) -> str:
    """A product with a weight of 2,000 x 2,000 in a file beside it."""
    weight = numpy_helper.from_array(np.zeros((2000, 2000), np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 2000])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 2000])],
        [weight],
    )
    path = folder / "model.onnx"
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    return str(path)


def test_external_weights_are_never_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = external(tmp_path)
    (tmp_path / "weights.bin").chmod(0)
    monkeypatch.setattr("onnx.external_data_helper.load_external_data_for_tensor", None)
    trace = sd.trace(path)
    assert trace.weight_bytes == 4 * 2000 * 2000
    assert trace.matmul_flops == 2 * 3 * 2000 * 2000


def test_a_run_finds_weights_beside_the_file(tmp_path: Path) -> None:
    trace = sd.trace(external(tmp_path), shapes="run")
    assert trace.weight_bytes == 4 * 2000 * 2000
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.onnx", "weights.bin"]


def test_a_missing_or_short_file_of_weights_is_one_line(tmp_path: Path, capsys: Any) -> None:
    path = external(tmp_path)
    with open(tmp_path / "weights.bin", "r+b") as file:
        file.truncate(1000)
    with pytest.raises(FileFormatError, match=r"weights.bin has 1,000 bytes, but 'w' ends at 16,000,000"):
        sd.trace(path)
    (tmp_path / "weights.bin").unlink()
    assert _run(["trace", path]) == 2
    assert capsys.readouterr().err == (f"simacc: {path} keeps 'w' in 'weights.bin', which is missing from {tmp_path}\n")


# Damage


def test_a_truncated_file_is_one_line(tmp_path: Path, capsys: Any) -> None:
    whole = (installed("swift_f0") / "model.onnx").read_bytes()
    path = tmp_path / "half.onnx"
    for size in (len(whole) // 2, len(whole) - 7, 20, 1):
        path.write_bytes(whole[:size])
        assert _run(["trace", str(path), "--dim", "samples=16000"]) == 2
        assert re.fullmatch(rf"simacc: {re.escape(str(path))} is (damaged|no ONNX file).*\n", capsys.readouterr().err)


@pytest.mark.parametrize("content", [b"a text\n", b"", b"\x00" * 64, b'{"model_type": "gpt2"}'])
def test_another_kind_of_file_is_one_line(tmp_path: Path, capsys: Any, content: bytes) -> None:
    path = tmp_path / "other.onnx"
    path.write_bytes(content)
    assert _run(["trace", str(path)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "no ONNX file" in error


def test_a_file_beyond_what_protobuf_holds_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "large.onnx"
    with path.open("wb") as file:
        file.truncate(2**31)  # a hole, no bytes on the disk
    with pytest.raises(
        FileFormatError, match=r"one ONNX file holds at most 2 GB, its weights belong in a file beside it"
    ):
        sd.trace(str(path))


def test_a_newer_operator_set_says_what_is_known(tmp_path: Path, capsys: Any) -> None:
    path = save(tmp_path, "g (float[2] x) => (float[2] y) { y = Relu(x) }")
    model = onnx.load(path)
    newest = onnx.defs.onnx_opset_version()
    model.opset_import[0].version = newest + 70
    onnx.save(model, path)
    assert _run(["trace", path]) == 2
    assert capsys.readouterr().err == (
        f"simacc: {path} uses operator set {newest + 70}; onnx {onnx.__version__} knows up to {newest}: "
        "install a newer onnx\n"
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda m: m.opset_import.append(helper.make_opsetid("ai.onnx.ml", 99)), "operator set 99 of ai.onnx.ml"),
        (lambda m: setattr(m, "ir_version", 99), "has IR version 99"),
        (lambda m: setattr(m.graph.initializer[0], "raw_data", b"12345678"), "'w' holds 8 bytes, its type needs 12"),
        (lambda m: m.graph.initializer[0].dims.append(-3), r"'w' has dimensions \[3, -3\]"),
        (lambda m: setattr(m.graph.initializer[0], "data_type", 99), "'w' has element type 99"),
        (lambda m: setattr(m.graph.node[0], "op_type", "If"), r"node 'If_0' \(If\) can't be walked: AttributeError"),
    ],
)
def test_a_newer_domain_and_wrong_contents_are_one_line(tmp_path: Path, capsys: Any, change: Any, said: str) -> None:
    path = save(tmp_path, "g (float[3] x) => (float[3] y) { y = Add(x, w) }")
    model = onnx.load(path)
    model.graph.initializer.append(numpy_helper.from_array(np.ones(3, np.float32), "w"))
    change(model)
    onnx.save(model, path)
    assert _run(["trace", path]) == 2
    assert re.fullmatch(rf"simacc: [^\n]*{said}[^\n]*\n", capsys.readouterr().err)


def test_a_name_that_is_no_utf8_is_one_line(tmp_path: Path, capsys: Any) -> None:
    path = Path(save(tmp_path, "g (float[3] x) => (float[3] y) { y = Relu(x) }"))
    path.write_bytes(path.read_bytes().replace(b"Relu", b"R\xffl\xfe"))
    assert _run(["trace", str(path)]) == 2
    assert re.fullmatch(r"simacc: [^\n]* is damaged[^\n]*\n", capsys.readouterr().err)


def test_no_file_and_a_folder_are_one_line(tmp_path: Path, capsys: Any) -> None:
    assert _run(["trace", str(tmp_path / "none.onnx")]) == 2
    assert "No such file or directory" in capsys.readouterr().err
    (tmp_path / "folder.onnx").mkdir()
    assert _run(["trace", str(tmp_path / "folder.onnx")]) == 2
    assert "Is a directory" in capsys.readouterr().err


def test_a_model_that_onnx_runtime_refuses_says_why(tmp_path: Path) -> None:
    path = save(tmp_path, "g (float[2, 3] x, float[5] z) => (float[N] y) { y = MatMul(x, z) }")
    with pytest.raises(CaptureError, match=r"^ONNX Runtime can't run .*model\.onnx: "):
        sd.trace(path, shapes="run")


def test_only_the_onnx_front_end_reads_a_file(tmp_path: Path) -> None:
    path = save(tmp_path, "g (float[2] x) => (float[2] y) { y = Relu(x) }")
    assert sd.trace(path).origin.frontend == "onnx"
    with pytest.raises(
        CaptureError, match=r"^the 'export' front end can't take an ONNX file \(model.onnx\): only 'onnx' can$"
    ):
        sd.trace(path, frontend="export")
    with pytest.raises(UnknownNameError, match="unknown way to get shapes 'guess'"):
        sd.trace(path, shapes="guess")


WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None  # importing it fails
from simdevice.costs import Costs
from simdevice.frontends import Workload, get
from simdevice.frontends.onnx_file import OnnxFile
file = OnnxFile(sys.argv[1], {"samples": 16000})
trace = get("onnx")(Workload(file), Costs(), fake=None, scopes=True, flop_counter=False)
print(len(trace), trace.flops)
"""


def test_a_file_is_walked_without_pytorch() -> None:
    path = installed("swift_f0") / "model.onnx"
    done = subprocess.run([sys.executable, "-c", WITHOUT_TORCH, path], capture_output=True, text=True, check=True)
    trace = real("swift_f0")
    assert done.stdout.split() == [str(len(trace)), str(trace.flops)]
