from __future__ import annotations

import os
import subprocess
import sys
from importlib import metadata

import pytest
from simacc_runner import Simacc


def test_help_lists_every_command_and_needs_no_torch(simacc: Simacc) -> None:
    program = "import sys; from simdevice.cli import _run; _run([]); assert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    for command in ("cost", "devices", "diff", "models", "ntt", "simulate", "sweep", "trace"):
        assert f"\n  {command} " in done.stdout


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["tarce"], "No such command 'tarce'. Did you mean 'trace'?"),
        (["trace"], "Missing argument 'MODEL'."),
        (["trace", "gpt2", "--tokns", 3], "No such option: --tokns (Possible options: --tokens)"),
        (["trace", "gpt2", "--tokens", "many"], "Invalid value for '--tokens': "),
        (["trace", "gpt2", "--tokens", 0], "Invalid value for '--tokens': "),
        (["trace", "gtp2"], "unknown model 'gtp2': did you mean 'gpt2'?"),
        (["trace", "gpt2", "--frontend", "expor"], "unknown front end 'expor': "),
        (["trace", "gpt2", "--attention", "fusd"], "unknown kind of attention 'fusd': did you mean 'fused'?"),
        (
            ["trace", "gpt2", "--tokens", 8, "--decode", 8],
            "give tokens for a prefill or decode for a decode step, not both",
        ),
        (["trace", "gpt2", "--dtype", "float61"], "unknown dtype 'float61': did you mean 'float64'?"),
        (["trace", "gpt2", "-o", "none/t.json"], "cannot write none/t.json: there is no folder none"),
        (["trace", "gpt2", "-o", "."], "cannot write .: it is a folder"),
        (
            ["trace", "some/model"],
            "expected a model name, a config.json, an .onnx or .pt2 file or package.module:function, got 'some/model'",
        ),
        (["trace", "none.json"], "cannot read none.json: No such file or directory"),
        (["trace", "nowhere:f"], "cannot import 'nowhere' for 'nowhere:f': no module named 'nowhere'"),
        (["cost", "none.npz"], "cannot read none.npz: No such file or directory"),
        (["cost", "none.json"], "cannot read none.json: No such file or directory"),
        (["cost", "gpt2", "--device", "h10"], "unknown device 'h10': did you mean 'h100'?"),
        (["cost", "gpt2", "--set", "link"], "expected --set FIELD=VALUE, got 'link'"),
        (["cost", "gpt2", "--set", "link=a", "--set", "link=b"], "--set link is given twice"),
        (["cost", "gpt2", "--set", "memory_capacity_bytes=-1"], "h100: memory_capacity_bytes: "),
        (["diff", "none.npz", "none.npz"], "cannot read none.npz: No such file or directory"),
    ],
)
def test_bad_arguments_and_input_are_one_line_and_exit_code_2(
    simacc: Simacc, arguments: list[object], complaint: str
) -> None:
    assert simacc(*arguments).complaint.startswith(complaint)


def test_version_is_the_packages(simacc: Simacc) -> None:
    assert simacc("--version").out == f"simacc {metadata.version('simdevice')}\n"


@pytest.mark.parametrize("command", [["devices"], ["devices", "--json"], ["simulate", "tiny-cnn"]])
def test_a_reader_that_had_enough_is_no_failure(command: list[str]) -> None:
    program = "import sys; from simdevice.cli import main; main(sys.argv[1:])"
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([sys.executable, "-c", program, *command], stdout=writing, stderr=subprocess.PIPE, text=True)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")
