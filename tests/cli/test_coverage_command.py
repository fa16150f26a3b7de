from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from simacc_runner import Simacc


@pytest.fixture
def saved(simacc: Simacc, tmp_path: Path) -> Path:
    path = tmp_path / "t.json"
    assert simacc("trace", "tiny-cnn", "-o", path).code == 0
    return path


@pytest.fixture
def onnx_file() -> Path:
    found = importlib.util.find_spec("swift_f0")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent / "model.onnx"


def test_coverage_by_rules_of_a_trace_file(simacc: Simacc, saved: Path) -> None:
    found = simacc("coverage", saved, "--json").json
    assert found["rules"][0]["of_flops"] == 1.0
    assert found["sides"] == found["unknown"] == []


def test_claims_split_device_and_host(simacc: Simacc, saved: Path) -> None:
    claimed = simacc("coverage", saved, "--device", "optical", "--claim", "matmul,convolution", "--json").json
    device, host, link = claimed["sides"]
    # 3 convolutions and the head; 3 norms, activations and poolings each, and the mean
    assert (device["operators"], host["operators"]) == (4, 10)
    assert device["of_flops"] > 0.9
    assert link["time_s"] > 0
    by_name = simacc("coverage", saved, "--claim", "aten.convolution", "--claim", "aten.addmm", "--json").json
    assert by_name["sides"][0]["operators"] == 4


def test_the_page_is_markdown(simacc: Simacc, saved: Path) -> None:
    shown = simacc("coverage", saved, "--claim", "convolution", "--link", "nvlink4")
    assert shown.code == 0
    assert "## Device and host" in shown.out
    assert "| on the device |" in shown.out


def test_an_onnx_file_is_a_model_wherever_one_is(simacc: Simacc, onnx_file: Path) -> None:
    for command in ("trace", "cost", "coverage"):
        found = simacc(command, onnx_file, "--dim", "samples=16000", "--json")
        assert found.code == 0, found.err
    assert simacc("diff", onnx_file, onnx_file, "--dim", "samples=16000", "--check").code == 0
    ran = simacc("trace", onnx_file, "--dim", "samples=16000", "--shapes", "run", "--json").json
    assert ran["path"] == "shapes of one run"


def test_wrong_options_are_one_line(simacc: Simacc, saved: Path, onnx_file: Path) -> None:
    assert simacc("coverage", saved, "--claim", "matmull").complaint == (
        "unknown category to claim 'matmull': did you mean 'matmul'?"
    )
    for option, name in (("--link", "nvlink4"), ("--host", "host-cpu")):
        assert simacc("coverage", saved, option, name).complaint == (
            f"{option} goes with --claim: without it there is no host"
        )
    assert simacc("trace", onnx_file, "--dim", "samples").complaint == (
        "expected --dim NAME=SIZE such as --dim batch=1, got 'samples'"
    )
    assert simacc("trace", "tiny-cnn", "--dim", "batch=1").complaint == (
        "dims (--dim) is no option of a model name (tiny-cnn): it goes with an ONNX file or an exported program"
    )
    assert simacc("trace", onnx_file, "--tokens", 5).complaint.startswith("tokens is no option of an ONNX file (")


@pytest.mark.parametrize("frontend", ["export", "compile", "onnx"])
def test_every_front_end_goes_by_its_name(simacc: Simacc, frontend: str) -> None:
    found = simacc("trace", "tiny-cnn", "--frontend", frontend, "--json").json
    assert found["frontend"] == frontend
    # 2 FLOPs for each of 2,802,304 multiply-adds, biases, and the rest of the network: the same on every road
    assert found["flops"] == 5_835_018
