"""A program's last act may be anything: it leaves with its own exit code, and nothing on standard error but its own."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

BEGIN = """
import torch
layer = torch.nn.Linear(64, 64).to("simacc")
x = torch.randn(128, 64, device="simacc", requires_grad=True)
"""

ENDS = {
    "backward": ("layer(x).square().sum().backward()", 0),
    "backward in record()": ("with torch.simacc.record():\n    layer(x).square().sum().backward()", 0),
    "double backward": (
        "g, = torch.autograd.grad((x ** 3).sum(), x, create_graph=True)\ng.sum().backward()",
        0,
    ),
    "autograd.grad": ("torch.autograd.grad(layer(x).sum(), x)", 0),
    "lstm": ("torch.nn.LSTM(64, 8).to('simacc')(x.view(16, 8, 64))[0].sum().backward()", 0),
    "transformer": (
        "torch.nn.TransformerEncoderLayer(64, 4, 32).to('simacc')(x.view(16, 8, 64)).sum().backward()",
        0,
    ),
    "profiler": ("with torch.profiler.profile():\n    layer(x).sum().backward()", 0),
    "data loader workers": (
        "data = torch.utils.data.TensorDataset(torch.ones(8, 64))\n"
        "for (batch,) in torch.utils.data.DataLoader(data, 4, num_workers=2):\n"
        "    layer(batch.to('simacc')).sum().backward()",
        0,
    ),
    "Ctrl-C": (
        "import os, signal\nlayer(x).sum().backward()\n"
        "try:\n    os.kill(os.getpid(), signal.SIGINT)\n    torch.ones(1)\n"
        "except KeyboardInterrupt:\n    raise SystemExit(130)",
        130,
    ),
    "exception": ("layer(x).sum().backward()\nraise SystemExit(3)", 3),
    "atexit": ("import atexit\natexit.register(lambda: layer(x).sum().backward())", 0),
    "a fork": ("import os\nlayer(x).sum().backward()\nos.fork() and os.wait()", 0),
    "a thread": (
        "import threading\nt = threading.Thread(target=lambda: layer(x).sum().backward())\nt.start(); t.join()",
        0,
    ),
    "no gradient": ("layer(x)", 0),
}


def leave(names: list[str]) -> None:
    """Several at once, so that threads are late. PyTorch's profiler says when it starts and stops."""
    running = [
        (
            name,
            subprocess.Popen(
                [sys.executable, "-X", "faulthandler", "-c", BEGIN + ENDS[name][0]], stderr=subprocess.PIPE, text=True
            ),
        )
        for name in names
    ]
    for name, process in running:
        try:
            _, said = process.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGABRT)  # faulthandler says where it stands
            _, said = process.communicate()
        said = "".join(line for line in said.splitlines(keepends=True) if not line.startswith("USDT:"))
        assert (process.returncode, said) == (ENDS[name][1], ""), name


def test_a_program_that_ends_on_a_backward_pass_leaves_cleanly() -> None:
    leave(["backward", "double backward", "lstm"])
    leave(["backward in record()", "exception", "atexit"])


@pytest.mark.slow
def test_two_hundred_programs_leave_cleanly() -> None:
    names = list(ENDS)
    for i in range(0, 201, 3):
        leave([names[(i + n) % len(names)] for n in range(3)])
