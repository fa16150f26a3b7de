"""A file appears whole or not at all."""

from __future__ import annotations

import contextlib
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from simdevice.errors import SpecError
from simdevice.files import atomic_write


def test_a_block_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "t.txt"
    path.write_text("old")
    with contextlib.suppress(ZeroDivisionError), atomic_write(path) as file:
        file.write("new")
        raise ZeroDivisionError
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("t.txt", "old")]


def test_no_folder_and_a_folder_are_said(tmp_path: Path) -> None:
    with (
        pytest.raises(SpecError, match=r"cannot write .*t.txt: No such file or directory"),
        atomic_write(tmp_path / "none" / "t.txt"),
    ):
        pass
    with pytest.raises(SpecError, match="it is a folder"), atomic_write(tmp_path):
        pass


def test_a_disk_without_room_is_one_line_and_leaves_nothing(tmp_path: Path) -> None:
    """A limit on the size of files stands in for a full disk."""
    script = f"from simdevice.cli import main; main(['trace', 'tiny-cnn', '-o', {str(tmp_path / 't.json')!r}])"

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

    ran = subprocess.run(
        [sys.executable, "-B", "-c", script], capture_output=True, text=True, preexec_fn=limit, check=False
    )
    assert ran.returncode == 2
    assert ran.stderr.splitlines()[-1] == f"simacc: cannot write {tmp_path / 't.json'}: File too large"
    assert list(tmp_path.iterdir()) == []
