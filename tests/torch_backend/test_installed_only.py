"""A program that never names simacc is as it was without it: what it prints, its errors and its exit code, whatever
state the installation is in. Named, the device says in one line what is wrong, or is compiled."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SCRIPT = HERE / "cpu_programs.py"
PROGRAMS = re.findall(r"^@program\ndef (\w+)", SCRIPT.read_text(), re.M)
STATES = ("built", "unbuilt", "no compiler", "truncated", "no sources")

# What a process of its own brings is not asked for here: the first ones are those that were different once.
FEW = (
    "pins_memory",
    "data_parallel",
    "loads_data_without_workers",
    "forks_the_generator",
    "trains_after_a_fork",
    "profiles",
)


@functools.cache
def installation(state: str, folder: Path) -> dict[str, str]:
    """A copy of the package in that state, as environment variables that put it first."""
    home = folder / state.replace(" ", "_")
    shutil.copytree(ROOT / "simdevice", home / "simdevice", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "configs", home / "configs")
    if state != "no sources":
        shutil.copytree(ROOT / "csrc", home / "csrc")
    library = next((home / "simdevice").glob("_device*.so"))
    if state == "truncated":
        os.truncate(library, 100_000)
    elif state != "built":
        library.unlink()
        library.with_name(f"{library.name}.sha256").unlink()
    environment = {"PYTHONPATH": str(home), "XDG_CACHE_HOME": str(home / "cache")}
    return environment | ({"CXX": "no-such-compiler"} if state == "no compiler" else {})


def ended(environment: dict[str, str], *programs: str) -> tuple[str, list[str], int]:
    """Standard output, standard error and exit code of programs run one after the other in one process."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *programs],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        check=False,
    )
    errors = [line for line in done.stderr.splitlines() if not line.startswith("USDT:")]  # PyTorch's, with the time
    return done.stdout, errors, done.returncode


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("states")


@functools.cache
def without_simacc(*programs: str) -> tuple[str, list[str], int]:
    return ended({"PYTHONPATH": str(ROOT), "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}, *programs)


def test_there_are_as_many_programs_as_are_promised():
    assert len(PROGRAMS) >= 40
    assert "simacc" not in SCRIPT.read_text().partition("from __future__")[2]


@pytest.mark.parametrize("state", STATES)
def test_few_programs_are_as_they_were(state, folder):
    environment = installation(state, folder)
    assert ended(environment, *FEW) == without_simacc(*FEW)
    assert not Path(environment["XDG_CACHE_HOME"]).exists()  # nothing was compiled either


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_as_it_was(name, folder):
    expected = without_simacc(name)
    assert (expected[2] != 0) == (name == "ends_on_an_error"), expected
    assert {state: ended(installation(state, folder), name) for state in STATES} == dict.fromkeys(STATES, expected)


NAMES_IT = """
import torch
try:
    print(torch.accelerator.is_available(), torch.simacc.is_available())
    print(torch.ones(2, device="simacc").sum().item())
except Exception as error:
    print(type(error).__name__, error)
"""


def naming(state: str, folder: Path) -> list[str]:
    environment = installation(state, folder)
    done = subprocess.run(
        [sys.executable, "-c", NAMES_IT],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        cwd=folder,  # the current folder stands before PYTHONPATH
        check=True,
    )
    return done.stdout.splitlines()


def test_a_program_that_names_it_without_a_compiler_is_told_what_to_do(folder):
    first, second = naming("no compiler", folder)
    assert first == "False False"
    assert second.startswith("BuildError the simacc device needs a C++20 compiler")


def test_a_program_that_names_it_without_sources_is_told_what_to_do(folder):
    assert naming("no sources", folder) == [
        "False False",
        "BuildError simacc's C++ sources are missing from this installation: reinstall simdevice",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("state", ["built", "unbuilt", "truncated"])
def test_a_program_that_names_it_gets_it(state, folder):
    assert naming(state, folder) == ["True True", "2.0"]


def test_a_program_that_asks_torch_accelerator_gets_simacc_everywhere():
    """PyTorch is told from then on: a DataLoader pins, fork_rng covers the device; a backward pass runs there though
    the CPU's came first, in this process and in a fork."""
    code = """
import os
import torch
from torch import nn

def trains(device):
    model = nn.Linear(2, 2, device=device)
    model(torch.ones(1, 2, device=device)).sum().backward()
    return model.bias.grad.tolist()

loader = torch.utils.data.DataLoader(torch.ones(4, 2), pin_memory=True)
assert trains("cpu") == [1.0, 1.0]
assert torch.utils.checkpoint.checkpoint(torch.sin, torch.ones(1, requires_grad=True), use_reentrant=False) is not None
assert torch.get_device_module() is torch.cpu
assert torch._utils._get_available_device_type() is None
child = os.fork()
assert trains("cpu") == [1.0, 1.0]
assert str(torch.accelerator.current_accelerator()) == "simacc"
assert next(iter(loader)).is_pinned()
assert torch._utils._get_available_device_type() == "simacc"
assert torch.get_device_module() is torch.simacc
assert torch.utils.checkpoint.DefaultDeviceType.get_device_type() == "simacc"
with torch.random.fork_rng():
    torch.rand(1, device="simacc")
assert trains("simacc") == [1.0, 1.0]
if child == 0:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print("all of it")
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert done.stdout == "all of it\n", done.stderr


@pytest.mark.parametrize(
    ("asks", "told"),
    [
        ("__main__", True),
        ("train.py", True),
        ("torch.utils.data.dataloader", False),
        ("transformers.utils.import_utils", False),
        ("torchvision.ops", True),
    ],
)
def test_a_framework_does_not_ask_for_the_program(asks, told):
    from simdevice.torch_backend import presence

    namespace = {"__name__": asks, "_asked_by_program": presence._asked_by_program}
    exec("import sys\ndef asks(): return _asked_by_program(sys._getframe())", namespace)
    assert namespace["asks"]() is told
