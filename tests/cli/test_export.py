"""`simacc export`: the file is ONNX, holds no weights, and costs what the model does by the ONNX road."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from simacc_runner import Simacc


@pytest.mark.parametrize(("model", "options"), [("tiny-cnn", ()), ("gpt2", ("--tokens", 16))])
def test_an_exported_file_costs_what_the_model_does(
    simacc: Simacc, tmp_path: Path, model: str, options: tuple[object, ...]
) -> None:
    assert simacc("export", model, *options, "-o", "m.onnx").out == "saved m.onnx\n"
    assert [p.name for p in tmp_path.iterdir()] == ["m.onnx"]
    onnx.checker.check_model(onnx.load(tmp_path / "m.onnx"))
    named = simacc("trace", model, *options, "--frontend", "onnx", "--json").json
    file = simacc("trace", "m.onnx", "--json").json
    assert (file["flops"], file["weight_bytes"]) == (named["flops"], named["weight_bytes"])
    # GPT-2's weights are 498 MB; its file has none of them
    assert (tmp_path / "m.onnx").stat().st_size < 2_000_000


def test_the_opset_is_what_was_asked(simacc: Simacc, tmp_path: Path) -> None:
    assert simacc("export", "tiny-cnn", "--opset", 20, "-o", "m.onnx").code == 0
    assert {o.domain: o.version for o in onnx.load(tmp_path / "m.onnx").opset_import}[""] == 20


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("tiny-cnn", "-o", "m.txt"), "m.txt: expected a name that ends in .onnx"),
        (("gtp2", "-o", "m.onnx"), "unknown model 'gtp2': did you mean 'gpt2'?"),
        (("a.onnx", "-o", "m.onnx"), "a.onnx is no model of PyTorch's, which alone can be exported"),
        (("tiny-cnn", "--opset", 99, "-o", "m.onnx"), "torch.onnx can't write this program at opset 99, only at 18"),
    ],
)
def test_what_cannot_be_exported_is_one_line_and_leaves_nothing(
    simacc: Simacc, tmp_path: Path, arguments: tuple[object, ...], complaint: str
) -> None:
    assert simacc("export", *arguments).complaint.startswith(complaint)
    assert list(tmp_path.iterdir()) == []
