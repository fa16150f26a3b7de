from __future__ import annotations

import json
from pathlib import Path

import pytest
from simacc_runner import Simacc

from simdevice.records import Trace

MODULE = """
import torch

def layer():
    return torch.nn.Linear(4, 2, device="meta"), torch.ones(3, 4, device="meta")

def named():
    return torch.nn.Linear(4, 2), {"input": torch.ones(3, 4)}

def several():
    return torch.add, (torch.ones(2), torch.ones(2))

def broken():
    raise ValueError("no\\nluck")

def wrong():
    return 3

def three():
    return 1, 2, 3

def leaves():
    raise SystemExit(7)

def misfit():
    return torch.nn.Linear(4, 2), torch.ones(3, 5)

constant = 3
"""


@pytest.fixture
def module(tmp_path: Path) -> str:
    (tmp_path / f"mine_{tmp_path.name}.py").write_text(MODULE)
    return f"mine_{tmp_path.name}"


def test_a_named_model_is_traced_and_shown(simacc: Simacc) -> None:
    shown = simacc("trace", "tiny-cnn")
    assert shown.code == 0
    assert "convolution" in shown.out
    assert "5.835 MFLOP" in shown.out


def test_json_has_totals_origin_and_categories(simacc: Simacc) -> None:
    data = simacc("trace", "llama3-8b", "--tokens", 2048, "--json").json
    assert (data["matmul_flops"], data["weight_bytes"]) == (32_938_104_193_024, 15_026_626_560)
    assert (data["frontend"], data["device"]) == ("dispatch", "meta")
    assert sum(row["flops"] for row in data["categories"]) == data["flops"]
    assert sum(row["operators"] for row in data["categories"]) == data["operators"]
    assert data["unknown"] == {}


@pytest.mark.parametrize("ending", ["json", "npz"])
def test_output_is_a_trace_file(simacc: Simacc, ending: str, tmp_path: Path) -> None:
    assert simacc("trace", "tiny-cnn", "--batch", 2, "-o", f"t.{ending}").code == 0
    assert Trace.load(tmp_path / f"t.{ending}").origin.workload == "tiny-cnn 2 images"
    assert [p.name for p in tmp_path.iterdir()] == [f"t.{ending}"]


def test_a_configuration_file_is_a_model(simacc: Simacc, tmp_path: Path) -> None:
    fields = {"model_type": "gpt2", "n_embd": 16, "n_layer": 1, "n_head": 2, "vocab_size": 50, "n_positions": 32}
    (tmp_path / "c.json").write_text(json.dumps({**fields, "bos_token_id": 0, "eos_token_id": 1}))
    data = simacc("trace", "c.json", "--json").json
    assert data["workload"] == "c prefill, 32 tokens, batch 1"  # as long as it has positions for


@pytest.mark.parametrize(("function", "operators"), [("layer", 2), ("named", 2), ("several", 1)])
def test_a_function_returns_a_module_and_its_inputs(simacc: Simacc, module: str, function: str, operators: int) -> None:
    assert simacc("trace", f"{module}:{function}", "--json").json["operators"] == operators


@pytest.mark.parametrize(
    ("function", "complaint"),
    [
        ("broken", "{} raised ValueError: no luck"),
        ("wrong", "expected {} to return (module, inputs), got int"),
        ("three", "expected {} to return (module, inputs), got a tuple of 3"),
        ("leaves", "{} raised SystemExit: 7"),
        ("misfit", "{} raised RuntimeError while it was traced: "),
        ("constant", "{} is no function but int"),
        ("lyer", "unknown function of "),
    ],
)
def test_a_function_that_fails_is_one_line_and_leaves_nothing(
    simacc: Simacc, module: str, function: str, complaint: str, tmp_path: Path
) -> None:
    before = sorted(tmp_path.glob("*.py"))
    spec = f"{module}:{function}"
    assert simacc("trace", spec, "-o", "t.npz").complaint.startswith(complaint.format(spec))
    assert [p for p in tmp_path.iterdir() if p.name != "__pycache__"] == before


def test_options_for_making_inputs_do_not_go_with_a_function(simacc: Simacc, module: str) -> None:
    complaint = simacc("trace", f"{module}:layer", "--tokens", 3).complaint
    assert complaint == (
        f"tokens is no option of package.module:function ({module}:layer): "
        "it goes with a model name, a configuration file or a module"
    )


def test_a_program_that_needs_numbers_says_what_to_try(simacc: Simacc, tmp_path: Path) -> None:
    (tmp_path / "needs_numbers.py").write_text(
        "import torch\ndef f(): return (lambda x: float(x.sum())), torch.ones(2, device='meta')\n"
    )
    assert simacc("trace", "needs_numbers:f").complaint.endswith("try attention='fused'")


def test_strict_refuses_what_no_rule_knows(simacc: Simacc, tmp_path: Path) -> None:
    (tmp_path / "odd_op.py").write_text(
        "import torch\n"
        "@torch.library.custom_op('simdevice_cli_test::odd', mutates_args=())\n"
        "def odd(a: torch.Tensor) -> torch.Tensor: return a + 1\n"
        "def f(): return odd, torch.ones(2)\n"
    )
    assert simacc("trace", "odd_op:f", "--strict").complaint.startswith("no cost rule for 'simdevice_cli_test.odd'")
    data = simacc("trace", "odd_op:f", "--json").json
    assert data["flops_are_a_lower_bound"] is True
    assert data["unknown"] == {"simdevice_cli_test.odd": "no cost rule"}
    assert ">= 0 FLOP" in simacc("trace", "odd_op:f").out


def test_more_tokens_than_learned_positions_are_refused(simacc):
    said = "gpt2 has 1,024 learned positions, too few for 99,999 tokens"
    assert simacc("trace", "gpt2", "--tokens", 99999).complaint == said
    assert simacc("trace", "gpt2", "--decode", 1024).complaint.endswith("too few for 1,025 tokens")


def test_flop_counter_is_shown_beside_our_count(simacc: Simacc) -> None:
    # tiny-cnn: 2,802,304 multiply-adds
    assert simacc("trace", "tiny-cnn", "--flop-counter", "--json").json["flop_counter"] == 2 * 2_802_304
    assert "FlopCounterMode" in simacc("trace", "tiny-cnn", "--flop-counter").out
    assert simacc("trace", "tiny-cnn", "--json").json["flop_counter"] is None
    assert "FlopCounterMode" in simacc("cost", "tiny-cnn", "--flop-counter").out


def test_switches_of_a_model_are_options(simacc: Simacc) -> None:
    said = simacc("trace", "gpt2", "--tokens", 8, "--no-cache", "--attention", "fused", "--json").json["path"]
    assert said.startswith("key-value cache off, fused attention (")
