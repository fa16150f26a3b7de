"""Loading and building the native half: a broken one never breaks `import torch`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(code: str, tmp_path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "XDG_CACHE_HOME": str(tmp_path / "cache"), **environment}
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=env, cwd=tmp_path, check=False
    )


def library_in(folder: Path, content: bytes) -> str:
    """A program's first lines: a library of these bytes is the installation's, and sealed as its build would."""
    library = folder / "_device.so"
    library.write_bytes(content)
    return f"""
import torch, pathlib
from simdevice.torch_backend import autoload, build
library = pathlib.Path({str(library)!r})
build._prebuilt = lambda: library if build.sealed(library) else None
"""


def test_a_library_that_cannot_be_loaded_is_silent_until_it_is_used(tmp_path):
    done = run(
        library_in(tmp_path, b"not a shared object")
        + """
build.seal(library)
autoload()
print(torch.ones(2).sum().item(), torch.device("simacc"))
try:
    torch.ones(2, device="simacc")
except ImportError as error:
    print(error)
""",
        tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    first, second = done.stdout.splitlines()
    assert first == "2.0 simacc"
    assert second.startswith("the simacc device could not be loaded: ")
    assert second.endswith("pip install --no-build-isolation --force-reinstall --no-deps simdevice")


def test_a_library_that_is_not_what_was_compiled_is_not_loaded(tmp_path):
    """Half of a library ends the interpreter in the loader (SIGBUS), one byte may do anything; here it is compiled
    again, which needs a compiler, and there is none."""
    whole = next((ROOT / "simdevice").glob("_device*.so")).read_bytes()
    done = run(
        library_in(tmp_path, whole)
        + """
whole, version = library.read_bytes(), torch.__version__

def truncated(): library.write_bytes(whole[:100_000])
def one_byte(): library.write_bytes(whole[:5000] + bytes([whole[5000] ^ 1]) + whole[5001:])
def another_pytorch(): torch.__version__ = "2.99"; build.seal(library); torch.__version__ = version
def no_seal(): build._seal_of(library).unlink()
def another_encoding(): build._seal_of(library).write_bytes(bytes([255, 254]))

for damage in (truncated, one_byte, another_pytorch, no_seal, another_encoding):
    library.write_bytes(whole)
    build.seal(library)
    assert build.sealed(library)
    damage()
    print(damage.__name__, build.load_prebuilt())
autoload()
try:
    torch.ones(2, device="simacc")
except ImportError as error:
    print(error)
""",
        tmp_path,
        CXX="no-such-compiler",
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    *damages, last = done.stdout.splitlines()
    assert damages == [
        f"{damage} None" for damage in ("truncated", "one_byte", "another_pytorch", "no_seal", "another_encoding")
    ]
    assert last.startswith("the simacc device needs a C++20 compiler and 'no-such-compiler' is not on the PATH")


def test_without_a_compiler_the_first_use_says_what_to_install(tmp_path):
    done = run(
        """
import torch
from simdevice.torch_backend import autoload, build
build._prebuilt = lambda: None
autoload()
import simdevice  # traces and costs need no device
try:
    torch.ones(2, device="simacc")
except ImportError as error:
    print(error)
""",
        tmp_path,
        CXX="no-such-compiler",
    )
    assert done.stderr == ""
    assert done.stdout.strip() == (
        "the simacc device needs a C++20 compiler and 'no-such-compiler' is not on the PATH: install one "
        "(Debian: apt install g++); traces, costs and the Python engines work without it"
    )


def test_import_torch_loads_none_of_the_simulator(tmp_path):
    done = run(
        """
import sys, torch
from simdevice.torch_backend import autoload
autoload()
print([m for m in sys.modules if m.startswith("simdevice.") and "torch_backend" not in m and m != "simdevice._device"])
print(torch.accelerator.current_accelerator())
torch.manual_seed(5)
torch.randn(3, device="simacc")
expected = torch.randn(3, generator=torch.Generator().manual_seed(5))
torch.manual_seed(5)
assert torch.equal(torch.randn(3, device="simacc").cpu(), expected)
""",
        tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["['simdevice.errors']", "simacc"]


def test_the_environment_chooses_the_machine_and_a_wrong_name_is_one_clear_line(tmp_path):
    code = """
import torch
from simdevice.torch_backend import autoload
autoload()
try:
    torch.ones(1, device="simacc")
    print(torch.simacc.get_device_name())
except Exception as error:
    print(type(error).__name__, error)
"""
    assert run(code, tmp_path, SIMACC_DEVICE="a100").stdout.strip() == "a100"
    assert run(code, tmp_path, SIMACC_DEVICE="a10").stdout.strip() == (
        "UnknownNameError unknown device 'a10': did you mean 'a100'?"
    )


@pytest.mark.slow
def test_first_use_compiles_once_for_processes_that_start_together(tmp_path):
    code = """
import torch
from simdevice.torch_backend import autoload, build
build._prebuilt = lambda: None
autoload()
print((torch.ones(2, device="simacc") + 1).tolist())
"""
    env = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "XDG_CACHE_HOME": str(tmp_path)}
    both = [
        subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env
        )
        for _ in range(2)
    ]
    said = [p.communicate() for p in both]
    assert [out.strip() for out, _ in said] == ["[2.0, 2.0]", "[2.0, 2.0]"]
    assert sum("compiling the device" in err for _, err in said) == 1
