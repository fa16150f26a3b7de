"""Every example runs as a user runs it, and writes nothing outside out/."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def run_example(name: str, cwd: Path) -> str:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / name)],
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_quickstart(tmp_path):
    printed = run_example("quickstart.py", tmp_path)
    assert "logits                    bit-equal" in printed
    assert "One training step on simacc" in printed
    for word in ("forward", "backward", "optimizer", "link, to device", "By module", "classify"):
        assert word in printed
    assert not list(tmp_path.iterdir())
