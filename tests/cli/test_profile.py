"""`simacc profile`: scripts run unchanged, their exit codes are kept, and the report comes also when they raise."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading

import pytest
import torch

from simdevice import Trace

SCRIPT = """
import sys, torch
print("arguments", sys.argv[1:], __name__)
x = torch.ones(4, 4{device})
y = (x @ x).sum().item()
print("value", y)
"""


@pytest.fixture(autouse=True)
def machine():
    yield
    torch.simacc.configure("h100")


def write(tmp_path, text):
    path = tmp_path / "script.py"
    path.write_text(text)
    return path


def test_a_script_runs_as_main_with_its_arguments(simacc, tmp_path):
    done = simacc(
        "profile", "--device", "a100", write(tmp_path, SCRIPT.format(device=", device='simacc'")), "--epochs", "3"
    )
    assert done.code == 0
    assert "arguments ['--epochs', '3'] __main__" in done.out
    assert "value 64.0" in done.out
    assert "script.py on a100" in done.out
    assert "matmul" in done.out


def test_the_default_device_moves_a_script_that_names_none(simacc, tmp_path):
    script = write(tmp_path, SCRIPT.format(device=""))
    assert "The script ran no operator on simacc" in simacc("profile", script).out
    moved = simacc("profile", "--default-device", script)
    assert "value 64.0" in moved.out
    assert "matmul" in moved.out
    assert torch.ones(1).device.type == "cpu"


def test_the_trace_is_saved_and_said_to_be(simacc, tmp_path):
    script = write(tmp_path, SCRIPT.format(device=", device='simacc'"))
    assert simacc("profile", "-o", "t[1].npz", script).out.splitlines()[-1] == "saved t[1].npz"
    done = simacc("profile", "--json", "-o", "t.npz", script)
    assert done.json["saved"] == "t.npz"
    assert simacc("cost", "t[1].npz", "--json").json["time_s"] == done.json["time_s"]
    assert simacc("cost", "t.npz", "--json").json["time_s"] == done.json["time_s"]


@pytest.mark.parametrize(("ending", "code"), [("", 0), ("sys.exit(7)", 7), ("raise ValueError('broken')", 1)])
def test_with_json_what_a_script_prints_goes_to_standard_error(simacc, tmp_path, ending, code):
    before = sys.stdout
    done = simacc("profile", "--json", write(tmp_path, SCRIPT.format(device=", device='simacc'") + ending))
    assert done.code == code
    assert done.json["flops"] == 2 * 4 * 4 * 4 + 4 * 4  # a product and a sum
    assert done.json["saved"] is None
    assert done.err.startswith("arguments [] __main__\nvalue 64.0\n")
    assert sys.stdout is before
    assert simacc("profile", write(tmp_path, "print('here again')")).out.startswith("here again\n")


AROUND_PYTHON = """
import ctypes, os, subprocess, sys
print("print")
sys.__stdout__.write("held back by Python\\n")
ctypes.CDLL(None).printf(b"held back by C\\n")
os.write(1, b"descriptor\\n")
subprocess.run(["echo", "child"], check=True)
raise ValueError("broken")
"""
AND_AFTER = """
import os
from simdevice.cli import main
try:
    main(["profile", "--json", "script.py"])
except SystemExit as left:
    print("left", left.code, flush=True)
os.system("echo child again")
"""


def test_with_json_nothing_else_reaches_a_pipe(tmp_path, monkeypatch):
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)  # nothing would be held back
    write(tmp_path, AROUND_PYTHON)
    done = subprocess.run([sys.executable, "-c", AND_AFTER], cwd=tmp_path, capture_output=True, text=True, check=True)
    report, end = json.JSONDecoder().raw_decode(done.stdout)
    assert report["flops"] == 0
    assert done.stdout[end:] == "\nleft 1\nchild again\n"
    said = ["ValueError: broken", "child", "descriptor", "held back by C", "held back by Python", "print"]
    assert [line for line in said if line not in done.stderr.splitlines()] == []


@pytest.mark.parametrize(
    ("ending", "code", "said"),
    [
        ("sys.exit(7)", 7, ""),
        ("sys.exit()", 0, ""),
        ("sys.exit('no data')", 1, "no data"),
        ("raise ValueError('broken')", 1, "ValueError: broken"),
    ],
)
def test_the_scripts_own_exit_code_is_kept_and_the_report_printed(simacc, tmp_path, ending, code, said):
    script = write(tmp_path, SCRIPT.format(device=", device='simacc'") + ending)
    done = simacc("profile", script)
    assert done.code == code
    assert said in done.err
    assert "matmul" in done.out


def test_a_traceback_starts_in_the_script(simacc, tmp_path):
    done = simacc("profile", write(tmp_path, "def f():\n    raise KeyError('x')\nf()"))
    assert "runpy" not in done.err
    assert 'script.py", line 3, in <module>' in done.err


def test_bad_arguments_are_one_line(simacc, tmp_path):
    assert simacc("profile", "missing.py").complaint == "cannot run missing.py: there is no such file"
    assert simacc("profile", tmp_path).complaint == f"cannot run {tmp_path}: it is a folder"
    script = write(tmp_path, "print('ran')")
    assert simacc("profile", "--device", "h10", script).complaint == "unknown device 'h10': did you mean 'h100'?"
    assert "no folder" in simacc("profile", "-o", "nowhere/t.npz", script).complaint


CONFIGURES = """
import torch

from simdevice import Trace
x = torch.ones(4, 4, device="simacc")
y = x @ x
torch.simacc.configure("a100")
with torch.simacc.record() as rec:
    y @ x
print("block on", rec.run.device)
"""


def test_a_script_that_configures_a_machine_is_simulated_there(simacc, tmp_path):
    script = write(tmp_path, CONFIGURES)
    done = simacc("profile", "--json", "-o", tmp_path / "t.npz", script)
    assert done.err == "block on a100\n"
    facts = done.json
    assert facts["device"] == "a100"
    costed = simacc("cost", tmp_path / "t.npz", "--device", "a100", "--json").json
    assert facts["time_s"] == costed["time_s"]
    assert facts["flops"] == 2 * 2 * 4 * 4 * 4  # both products, the one before configure() too


def test_the_command_lines_machine_wins_and_says_so(simacc, tmp_path):
    done = simacc("profile", "--device", "dc-npu", write(tmp_path, CONFIGURES))
    assert done.err == "simacc: configure('a100') changes nothing: --device chose dc-npu\n"
    assert "block on dc-npu" in done.out
    assert "script.py on dc-npu" in done.out


def test_the_environment_chooses_the_machine_where_nothing_else_does(simacc, tmp_path, monkeypatch):
    monkeypatch.setenv("SIMACC_DEVICE", "optical")
    assert "script.py on optical" in simacc("profile", write(tmp_path, SCRIPT.format(device=", device='simacc'"))).out


def test_a_script_that_does_not_compile_shows_its_own_line_only(simacc, tmp_path):
    done = simacc("profile", write(tmp_path, "import torch)"))
    assert done.code == 1
    assert done.err.splitlines()[0].endswith('script.py", line 1')
    assert done.err.splitlines()[-1] == "SyntaxError: unmatched ')'"


THREADS = """
import threading, torch
model = torch.nn.Sequential(torch.nn.Linear(4, 4)).to("simacc")
x = torch.ones(2, 4, device="simacc")
threads = [threading.Thread(target=model, args=(x,)) for _ in range(3)]
for thread in threads:
    thread.start()
    thread.join()
"""


def test_operators_of_every_thread_are_in_the_report(simacc, tmp_path):
    done = simacc("profile", "--json", "-o", tmp_path / "t.npz", write(tmp_path, THREADS))
    assert done.json["flops"] == 3 * (2 * 2 * 4 * 4 + 2 * 4)  # 2 rows x 4 x 4 products and 2 x 4 sums, thrice
    products = [op for op in Trace.load(tmp_path / "t.npz").ops if op.name == "aten.addmm"]
    assert [op.scope for op in products] == ["0"] * 3


def test_threads_that_outlive_the_script_do_not_disturb(simacc, tmp_path):
    """The script leaves a thread at work until a file appears."""
    stop = tmp_path / "stop"
    script = write(
        tmp_path,
        f"""
import pathlib, threading, torch
x, begun = torch.ones(2, device="simacc"), threading.Event()
def work():
    while not pathlib.Path({str(stop)!r}).exists():
        x + x
        begun.set()
threading.Thread(target=work, name="outlives").start()
begun.wait()
""",
    )
    try:
        assert simacc("profile", script).code == 0
        with torch.simacc.record() as rec:
            torch.ones(2, device="simacc") * 2
        names = [op.name for op in rec.trace.ops]
        assert "aten.mul" in names
        assert "aten.add" not in names
    finally:
        left = [thread for thread in threading.enumerate() if thread.name == "outlives"]
        stop.touch()
        for thread in left:
            thread.join()


WITHOUT_LIBRARY = """
import torch
from simdevice.torch_backend import autoload, build
build._prebuilt = lambda: None
autoload()
from simdevice.cli import main
main(["profile", "script.py"])
"""


def profiled_without_library(tmp_path, **environment):
    """`simacc profile` where no device has been compiled."""
    write(tmp_path, "print('ran')")
    env = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "XDG_CACHE_HOME": str(tmp_path / "cache"), **environment}
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_LIBRARY], cwd=tmp_path, capture_output=True, text=True, env=env, check=False
    )


def test_a_missing_compiler_is_one_line(tmp_path):
    done = profiled_without_library(tmp_path, CXX="no-such-compiler")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "simacc: the simacc device needs a C++20 compiler and 'no-such-compiler' is not on the PATH: install one "
        "(Debian: apt install g++); traces, costs and the Python engines work without it\n"
    )


def test_a_cache_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "cache").write_text("a file where a folder should be")
    done = profiled_without_library(tmp_path, CXX=sys.executable)
    assert (done.returncode, done.stdout) == (2, "")
    start = f"simacc: the simacc device cannot be compiled into {tmp_path}/cache/simdevice/"
    assert done.stderr.startswith(start)
    assert done.stderr.removeprefix(start)[16:] == (
        ": Not a directory; set XDG_CACHE_HOME to a folder that can be written\n"  # after the key, 16 digits
    )


def test_a_compiler_that_fails_is_one_line_after_the_notice(tmp_path):
    done = profiled_without_library(tmp_path, CXX="false")
    assert (done.returncode, done.stdout) == (2, "")
    notice, complaint = done.stderr.splitlines()
    assert notice == "simacc: compiling the device for this PyTorch, once (about a minute) ..."
    assert complaint.startswith("simacc: the simacc device did not compile: ")
