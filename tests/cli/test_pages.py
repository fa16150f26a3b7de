"""Every command that prints a table prints one page: into a pipe plain text, on a terminal as wide as that is."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from simacc_runner import Simacc

COMMANDS = {
    "cost": ("cost", "t.npz"),
    "coverage": ("coverage", "t.npz", "--claim", "matmul"),
    "devices": ("devices",),
    "diff": ("diff", "t.npz", "u.npz"),
    "models": ("models",),
    "ntt": ("ntt", "--ring", 1024, "--limbs", 2),
    "simulate": ("simulate", "t.npz"),
    "sweep": ("sweep", "t.npz", "--set", "buffer_bytes=512KiB,2MiB"),
    "trace": ("trace", "tiny-cnn"),
}
TITLES = {
    "cost": "tiny-cnn 1 image on h100",
    "coverage": "# Coverage of tiny-cnn 1 image on h100 + host-cpu over pcie5-x16",
    "devices": "Machines that are known by name",
    "diff": "different FLOPs and weight bytes; the streams part at operator 0",
    "models": "Models",
    "ntt": "RNS product",
    "simulate": "tiny-cnn 1 image on edge-npu",
    "sweep": "2 of 2 machines ran; the fastest 2; *: no other beats it in buffer_bytes too",
    "trace": "Trace of tiny-cnn 1 image",
}


@pytest.fixture
def traced(simacc: Simacc) -> Simacc:
    assert simacc("trace", "tiny-cnn", "-o", "t.npz").code == 0
    assert simacc("trace", "tiny-cnn", "--batch", 2, "-o", "u.npz").code == 0
    return simacc


@pytest.mark.parametrize("name", COMMANDS)
def test_a_pipe_gets_a_title_and_no_boxes_or_colours(traced: Simacc, name: str) -> None:
    shown = traced(*COMMANDS[name])
    assert (shown.code, shown.err) == (0, "")
    lines = shown.out.splitlines()
    assert lines[0].startswith(TITLES[name])
    assert not re.search("[─│┃━…\x1b]", shown.out)
    assert [line for line in lines if line != line.rstrip()] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_json_is_one_document(traced: Simacc, name: str) -> None:
    assert traced(*COMMANDS[name], "--json").json


@pytest.mark.parametrize("name", ["trace", "simulate", "diff", "sweep"])
def test_keys_of_documents_stay(traced: Simacc, name: str) -> None:
    document = traced(*COMMANDS[name], "--json").json
    keys = {
        "trace": {
            *(
                "workload",
                "frontend",
                "device",
                "path",
                "versions",
                "notes",
                "capture_s",
                "operators",
                "operator_types",
            ),
            *(
                "signatures",
                "flops",
                "flops_are_a_lower_bound",
                "matmul_flops",
                "flop_counter",
                "bytes_read",
                "bytes_written",
            ),
            *("weight_bytes", "peak_live_bytes", "categories", "unknown", "saved"),
        },
        "simulate": {
            *(
                "device",
                "workload",
                "operators",
                "free_operators",
                "time_s",
                "busy_s",
                "flops",
                "path",
                "flop_counter",
                "is_lower_bound",
            ),
            *(
                "bytes_read",
                "bytes_written",
                "weight_bytes",
                "devices",
                "peak_live_bytes",
                "memory_capacity_bytes",
                "utilisation",
            ),
            *(
                "excess_bytes",
                "bounds_s",
                "flops_per_s",
                "hot_spot",
                "stalls",
                "components",
                "levels",
                "by_device",
                "by_phase",
                "by_category",
            ),
            *("by_bound", "by_module", "top_operators", "transfers", "unknown_operators", "tiles", "saved"),
        },
        "diff": {
            *("before", "after", "operators", "signatures", "first_difference", "versions"),
            *("same_stream", "same_arithmetic"),
        },
    }
    if name == "sweep":
        assert [record["buffer_bytes"] for record in document] == [524_288, 2_097_152]
        assert "front" not in document[0]
    else:
        assert set(document) == keys[name]


def test_a_change_has_both_sides_as_data(traced: Simacc) -> None:
    document = traced("diff", "t.npz", "u.npz", "--json").json
    (relu,) = [row for row in document["operators"] if row["name"] == "aten.relu"]
    # one FLOP per element: 16 x 32 x 32 + 32 x 16 x 16 + 64 x 8 x 8 for each image
    assert (relu["before"]["flops"], relu["after"]["flops"]) == (28_672, 57_344)
    assert (relu["before"]["calls"], relu["after"]["calls"]) == (3, 3)
    assert [row["name"] for row in document["operators"]].count("total") == 0


def on_terminal(folder: Path, width: int, *arguments: str) -> list[str]:
    """What a command prints on a terminal of this width, without its colours."""
    program = "import sys; from simdevice.cli import main; main(sys.argv[1:])"
    reading, writing = pty.openpty()
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "LINES")}
    command = subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stdout=writing,
        stderr=subprocess.DEVNULL,
        env={**kept, "COLUMNS": str(width), "TERM": "xterm"},
        cwd=folder,
    )
    os.close(writing)
    received = b""
    with suppress(OSError):  # Linux's word for the end
        while part := os.read(reading, 65536):
            received += part
    os.close(reading)
    assert command.wait() == 0
    return [line.rstrip() for line in re.sub("\x1b\\[[0-9;]*m", "", received.decode()).splitlines()]


@pytest.mark.parametrize("width", [30, 100])
def test_a_terminal_is_never_written_beyond(traced: Simacc, tmp_path: Path, width: int) -> None:
    lines = on_terminal(tmp_path, width, "simulate", "t.npz", "--top", "2")
    assert lines[0] == "tiny-cnn 1 image on edge-npu"
    assert max(map(len, lines)) <= width
    # the array's multiply-adds stand in one piece, in a table or in a line of its own
    assert ("work: 2,802,304" in lines) == (width == 30)
    assert any("2,802,304" in line for line in lines)


@pytest.mark.parametrize(("name", "title"), [("coverage", "Coverage of tiny-cnn 1 image on h100"), ("devices", "")])
def test_a_terminal_gets_no_markdown(traced: Simacc, tmp_path: Path, name: str, title: str) -> None:
    lines = on_terminal(tmp_path, 60, *map(str, COMMANDS[name]))
    assert lines[0].startswith(title)
    assert max(map(len, lines)) <= 60
    assert not any(line.startswith(("#", "|")) for line in lines)
