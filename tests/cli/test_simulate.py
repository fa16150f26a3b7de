"""`simacc simulate`: the published time, the files it writes, and one line for what cannot be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from simacc_runner import Simacc

EDGE = ("--device", "published/edge-npu")


@pytest.fixture
def saved(simacc: Simacc, tmp_path: Path) -> Path:
    path = tmp_path / "t.json"
    assert simacc("trace", "tiny-cnn", "--frontend", "export", "--attention", "fused", "-o", path).code == 0
    return path


def test_the_published_figures_of_tiny_cnn(simacc: Simacc, saved: Path) -> None:
    # Source: Torch_Sim_Frontend, examples/accel_results.md
    found = simacc("simulate", saved, *EDGE, "--json").json
    assert (found["device"], found["tiles"], round(found["time_s"] * 1e6, 2)) == ("published/edge-npu", 14, 104.44)
    shares = {stall["name"]: round(100 * stall["share"], 1) for stall in found["stalls"]}
    assert (shares["load bandwidth"], shares["dependency"]) == (59.8, 33.7)
    assert found["hot_spot"]["name"] == "off-chip memory"


def test_a_model_by_name_and_its_trace_take_the_same(simacc: Simacc, saved: Path) -> None:
    named = simacc("simulate", "tiny-cnn", "--frontend", "export", "--attention", "fused", "--json").json
    assert named == simacc("simulate", saved, "--json").json


@pytest.mark.parametrize("engine", ["python", "simpy", "cycle"])
def test_every_engine_gives_the_same(simacc: Simacc, saved: Path, engine: str) -> None:
    native, other = (
        simacc("simulate", saved, *EDGE, "--engine", e, "--set", "quantise=true", "--json").json
        for e in ("native", engine)
    )
    assert native == other
    assert round(native["time_s"] * 1e9) == 104_439  # cycles of 1 ns


def test_pictures_and_traces_are_written(simacc: Simacc, saved: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib (the 'plots' extra) is not installed")
    messages = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    done = simacc(
        *("simulate", saved, "--timeline", "t.png", "--perfetto", "t.pftrace", "--chrome", "c.json"),
        *("--set", "buffer_bytes=512KiB", "--max-slices", 30),
    )
    assert done.code == 0
    for name in ("t.png", "t.pftrace", "c.json"):
        assert f"saved {name}" in done.out
    assert (tmp_path / "t.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    trace = messages.Trace.FromString((tmp_path / "t.pftrace").read_bytes())
    said = trace.packet[0].track_descriptor.process.process_name
    assert "slices left out (at most 30)" in said
    assert json.loads((tmp_path / "c.json").read_text())["otherData"]["contents"] in said


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (
            ["--set", "buffer_bytes=8"],
            "aten.convolution(1x3x32x32, 16x3x3x3, 16): its smallest tile needs 13 bytes, a tile may use 4 of the "
            "buffer's 8 bytes: enlarge buffer_bytes or tile_fraction",
        ),
        (["--set", "vector_lanes=0"], "edge-npu: vector_lanes: expected more than zero, got '0'"),
        (["--set", "buffer_byte=1"], "edge-npu: unknown field 'buffer_byte': did you mean 'buffer_bytes'?"),
        (["--set", "buffer_bytes=512Kb"], "edge-npu: buffer_bytes: unit 'Kb' in '512Kb' is not a unit of B: "),
        (
            ["--engine", "cycle"],
            "engine 'cycle' steps whole clock cycles: set quantise=True on the device, or use another engine",
        ),
        (["--engine", "cylce"], "unknown engine 'cylce': did you mean 'cycle'?"),
        (["--device", "h100"], "h100 simulates no tiles: use `simacc cost`, or an accelerator such as 'edge-npu'"),
        (["--device", "edge"], "unknown device 'edge': "),
        (["--timeline", "none/t.png"], "cannot write none/t.png: there is no folder none"),
        (["--timeline", "t.jpg"], "t.jpg: expected a name that ends in .png"),
        (["--perfetto", "/proc/t"], "cannot write /proc/t: "),
        (["--chrome", "/dev/null"], "cannot write /dev/null: it is no ordinary file"),
        (["--chrome", "a", "--perfetto", "./a"], "--timeline, --perfetto and --chrome need a file each"),
        (["--max-slices", 0], "Invalid value for '--max-slices': "),
    ],
)
def test_what_cannot_be_is_one_line_and_nothing_is_written(
    simacc: Simacc, saved: Path, tmp_path: Path, arguments: list[object], complaint: str
) -> None:
    assert simacc("simulate", saved, "--perfetto", "p.pftrace", *arguments).complaint.startswith(complaint)
    assert [path.name for path in tmp_path.iterdir()] == ["t.json"]
