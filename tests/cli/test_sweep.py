"""`simacc sweep`: the published grid, its files, going on after an interruption, and one line for what cannot be."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest
from simacc_runner import Simacc

import simdevice.sweeps as sweeping

GRID = (
    *("--device", "published/edge-npu"),
    *("--set", "buffer_bytes=128KiB,512KiB,2MiB"),
    *("--set", "dram_bandwidth_bytes_per_s=12.8GB/s,25.6GB/s,102.4GB/s"),
)
# Source: Torch_Sim_Frontend, examples/accel_results.md (tiny-cnn, 8 images)
LATENCIES_US = [1083.33, 560.16, 167.78, 1097.59, 561.14, 158.84, 1345.73, 693.57, 204.45]


@pytest.fixture
def saved(simacc: Simacc, tmp_path: Path) -> Path:
    path = tmp_path / "t.json"
    assert (
        simacc("trace", "tiny-cnn", "--frontend", "export", "--attention", "fused", "--batch", 8, "-o", path).code == 0
    )
    return path


def cells(shown: str) -> list[list[str]]:
    """The table of a page in a pipe: its lines are indented, its columns two spaces apart."""
    return [re.split(" {2,}", line.strip()) for line in shown.splitlines() if line.startswith("  ")]


def in_us(records: list[dict[str, float]]) -> list[float]:
    return [round(float(record["latency_s"]) * 1e6, 2) for record in records]


def test_the_published_nine_machines(simacc: Simacc, saved: Path) -> None:
    assert in_us(simacc("sweep", saved, *GRID, "--json").json) == LATENCIES_US


def test_the_table_is_sorted_and_marks_the_front(simacc: Simacc, saved: Path) -> None:
    shown = simacc("sweep", saved, *GRID, "--top", 3).out
    assert "9 of 9 machines ran; the fastest 3" in shown
    assert [(row[0], row[1], row[2], row[-1]) for row in cells(shown)] == [
        ("buffer_bytes", "dram_bandwidth_bytes_per_s", "latency", "front"),
        ("512 KiB", "102.4 GB/s", "158.845 us", "*"),
        ("128 KiB", "102.4 GB/s", "167.785 us", "*"),
        ("2 MiB", "102.4 GB/s", "204.455 us", "-"),
    ]


def test_among_equally_fast_machines_the_cheapest_comes_first(simacc: Simacc, saved: Path) -> None:
    # half of either is more than any operator of tiny-cnn needs: the tiles are the same
    shown = simacc("sweep", saved, "--set", "buffer_bytes=64MiB,32MiB").out
    _, first, second = cells(shown)
    assert first[1] == second[1]
    assert [(row[0], row[-1]) for row in (first, second)] == [("32 MiB", "*"), ("64 MiB", "-")]


def test_tables_and_the_plot_are_written(simacc: Simacc, saved: Path, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow (the 'sweep' extra) is not installed")
    pytest.importorskip("matplotlib", reason="matplotlib (the 'plots' extra) is not installed")
    assert "saved t.csv" in simacc("sweep", saved, *GRID, "-o", "t.csv").out
    done = simacc("sweep", saved, *GRID, "--output", "t.parquet", "--plot", "p.png")
    assert "saved p.png" in done.out
    with (tmp_path / "t.csv").open() as file:
        assert in_us(list(csv.DictReader(file))) == LATENCIES_US
    assert in_us(parquet.read_table(tmp_path / "t.parquet").to_pylist()) == LATENCIES_US
    assert (tmp_path / "p.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["p.png", "t.csv", "t.json", "t.parquet"]


def test_a_sample_of_ranges_is_the_same_for_the_same_seed(simacc: Simacc, saved: Path) -> None:
    drawn = ("sweep", saved, "--set", "buffer_bytes=64KiB..4MiB", "--set", "array_rows=16,32", "--sample", 20, "--json")
    first = simacc(*drawn).json
    assert len(first) == 20
    assert first == simacc(*drawn, "--seed", 0).json
    assert first != simacc(*drawn, "--seed", 1).json


def test_two_processes_give_the_same(simacc: Simacc, saved: Path) -> None:
    pytest.importorskip("joblib", reason="joblib (the 'sweep' extra) is not installed")
    assert in_us(simacc("sweep", saved, *GRID, "--processes", 2, "--json").json) == LATENCIES_US


@pytest.mark.parametrize(("option", "left"), [("--resume", 3), ("--restart", 5)])
def test_a_stopped_sweep_goes_on_or_starts_again(
    simacc: Simacc, saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str, left: int
) -> None:
    simulate, calls = sweeping._chunk, 0

    def stop_at_third(*arguments: object) -> object:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise KeyboardInterrupt
        return simulate(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(sweeping, "CHUNK", 2)
    monkeypatch.setattr(sweeping, "_chunk", stop_at_third)
    stopped = simacc("sweep", saved, *GRID, "-o", "t.csv")
    assert stopped.code == 130
    assert stopped.err == "simacc: stopped after 4 of 9 machines: the same command goes on from t.csv.partial\n"
    assert not (tmp_path / "t.csv").exists()
    assert in_us(simacc("sweep", saved, *GRID, "-o", "t.csv", option, "--json").json) == LATENCIES_US
    assert calls == 3 + left
    assert sorted(p.name for p in tmp_path.iterdir()) == ["t.csv", "t.json"]


def test_a_machine_that_cannot_run_is_said(simacc: Simacc, saved: Path) -> None:
    shown = simacc("sweep", saved, "--set", "buffer_bytes=8,2MiB").out
    assert "1 of 2 machines ran" in shown
    assert "did not run: aten.convolution(8x3x32x32, 16x3x3x3, 16): its smallest tile needs 13 bytes" in shown


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "a sweep needs a field to vary, such as --set buffer_bytes=512KiB,2MiB"),
        (["--set", "buffer_byte=1,2"], "edge-npu: unknown field 'buffer_byte': did you mean 'buffer_bytes'?"),
        (["--set", "vector_lanes=64,0"], "edge-npu: vector_lanes: expected more than zero, got '0'"),
        (["--set", "vector_lanes=64,,8"], "expected --set FIELD=VALUE,VALUE,... or FIELD=LOW..HIGH, got "),
        (["--set", "array_rows=1", "--set", "array_rows=2"], "--set array_rows is given twice"),
        (["--set", "array_rows=1..8"], "array_rows: a range has no grid; say how many to draw (samples=, --sample)"),
        (["--set", "array_rows=8..1", "--sample", 2], "array_rows: expected 0 < low <= high in a range, got 8 to 1"),
        (["--set", "buffer_bytes=8,4"], "none of 2 machines can run this trace: aten.convolution(8x3x32x32, "),
        (["--set", "array_rows=1,2", "--sample", 0], "Invalid value for '--sample' / '--samples': "),
        (["--set", "array_rows=1,2", "--processes", 0], "jobs: expected a number of processes, or -1 for one per core"),
        (["--set", "array_rows=1,2", "--engine", "nativ"], "unknown engine 'nativ': did you mean 'native'?"),
        (["--set", "array_rows=1,2", "--backend", "lok"], "unknown backend 'lok': did you mean 'loky'?"),
        (["--set", "array_rows=1,2", "--engine", "cycle"], "engine 'cycle' steps whole clock cycles: sweep a device "),
        (["--set", "array_rows=1,2", "--device", "h100"], "h100 is a roofline; a sweep needs an accelerator such as "),
        (["--set", "array_rows=1,2", "--against", "rows"], "--against rows: expected one of the swept fields, "),
        (["--set", "array_rows=1,2", "-o", "t.xlsx"], "t.xlsx: expected a name that ends in .csv or .parquet"),
        (["--set", "array_rows=1,2", "-o", "none/t.csv"], "cannot write none/t.csv: there is no folder none"),
        (["--set", "array_rows=1,2", "--plot", "t.jpg"], "t.jpg: expected a name that ends in .png"),
    ],
)
def test_what_cannot_be_is_one_line_and_nothing_is_written(
    simacc: Simacc, saved: Path, tmp_path: Path, arguments: list[object], complaint: str
) -> None:
    assert simacc("sweep", saved, *arguments).complaint.startswith(complaint)
    assert [path.name for path in tmp_path.iterdir()] == ["t.json"]
