from __future__ import annotations

import json
from pathlib import Path

from simacc_runner import Simacc


def test_equal_traces_have_no_difference(simacc: Simacc) -> None:
    simacc("trace", "tiny-cnn", "-o", "a.npz")
    found = simacc("diff", "a.npz", "tiny-cnn", "--check")
    assert found.code == 0
    assert "the same operators with the same shapes in the same order" in found.out


def test_different_arithmetic_is_shown_and_checked(simacc: Simacc) -> None:
    simacc("trace", "tiny-cnn", "-o", "a.npz")
    simacc("trace", "tiny-cnn", "--batch", 2, "-o", "b.json")
    assert simacc("diff", "a.npz", "b.json").code == 0
    checked = simacc("diff", "a.npz", "b.json", "--check", "--json")
    assert checked.code == 1
    data = checked.json
    assert data["same_arithmetic"] is False
    assert data["after"]["flops"] == 2 * data["before"]["flops"]
    assert data["after"]["weight_bytes"] == data["before"]["weight_bytes"]


def test_options_for_tracing_do_not_go_with_two_traces(simacc: Simacc) -> None:
    simacc("trace", "tiny-cnn", "-o", "a.npz")
    for option, value in (("--decode", 5), ("--frontend", "export"), ("--shapes", "run"), ("--dim", "batch=1")):
        said = simacc("diff", "a.npz", "a.npz", option, value).complaint
        assert said == f"a.npz is a trace already: {option} doesn't apply"


def test_options_apply_to_configuration_files_too(simacc: Simacc, tmp_path: Path) -> None:
    size = {"n_embd": 16, "n_layer": 1, "n_head": 2, "vocab_size": 32, "n_positions": 64}
    (tmp_path / "small.json").write_text(json.dumps({"model_type": "gpt2", **size}))
    simacc("trace", "small.json", "--tokens", 8, "-o", "small.npz")
    assert simacc("diff", "small.npz", "small.json", "--tokens", 8, "--check").code == 0
    assert simacc("diff", "small.npz", "small.json", "--tokens", 9, "--check").code == 1
