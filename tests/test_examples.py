"""Every example runs as a user runs it, and writes nothing outside out/."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def run_example(name: str, cwd: Path, *arguments: str, device: str = "simacc", typed: str = "") -> str:
    """What it prints. On another device: the same file with another device string."""
    path = ROOT / "examples" / name
    if device != "simacc":
        text = path.read_text()
        assert text.count('"simacc"') == 1
        path = cwd / name
        path.write_text(text.replace('"simacc"', f'"{device}"'))
    done = subprocess.run(
        [sys.executable, str(path), *arguments],
        input=typed,
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


def test_training_goes_on_from_a_checkpoint_as_if_it_had_never_stopped(tmp_path):
    whole = run_example("train_amp.py", tmp_path, "--epochs", "3", "--checkpoint", "whole.pt")
    run_example("train_amp.py", tmp_path, "--epochs", "2", "--checkpoint", "part.pt")
    rest = run_example("train_amp.py", tmp_path, "--epochs", "3", "--checkpoint", "part.pt")
    assert rest.splitlines()[0] == "going on after epoch 2"
    assert rest.splitlines()[1:] == whole.splitlines()[2:]  # the third epoch's loss to six digits, and the accuracy
    assert int(whole.split()[-5]) > 1500  # of 1797


def test_a_conversation_is_the_cpus_word_for_word(tmp_path):
    typed = "hello\nhow are you?\n"
    simulated = run_example("chat.py", tmp_path, typed=typed)
    assert simulated == run_example("chat.py", tmp_path, device="cpu", typed=typed)
    assert simulated.splitlines()[1] == "  (22 tokens so far)"  # 6 bytes and 16 of an answer


def test_evaluation_counts_what_the_cpu_counts(tmp_path):
    simulated = run_example("evaluate.py", tmp_path)
    assert simulated == run_example("evaluate.py", tmp_path, device="cpu")
    assert simulated.splitlines()[-1].endswith("of 1797")
