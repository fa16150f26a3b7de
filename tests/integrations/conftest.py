"""Programs as users write them, each in a process of its own: an integration changes a whole process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def program(tmp_path) -> Callable[..., list[str]]:
    """What a program prints, by lines; it has to end well. `autoload=False`: simacc might as well not be installed."""

    def run(code: str, *, autoload: bool = True) -> list[str]:
        script = tmp_path / "program.py"
        script.write_text(code)
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "OMP_NUM_THREADS": "1",
            "HF_HUB_OFFLINE": "1",
            "TORCH_DEVICE_BACKEND_AUTOLOAD": str(int(autoload)),
        }
        done = subprocess.run(
            [sys.executable, "-W", "ignore", str(script)],
            capture_output=True,
            text=True,
            env=environment,
            cwd=tmp_path,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
        return done.stdout.splitlines()

    return run
