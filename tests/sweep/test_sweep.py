"""Sweeps: the published grid, samples, files, resuming, errors, several processes."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest
from published_traces import tiny_cnn

import simdevice as sd
import simdevice.sweeps as sweeping
from simdevice.analysis.occupancy import buffer_peak
from simdevice.analysis.utilisation import components, hot_spot, stalls
from simdevice.errors import SimdeviceError, SpecError, UnknownNameError
from simdevice.hardware import AcceleratorSpec, load
from simdevice.records import Run
from simdevice.report.timeline import write_png
from simdevice.sweeps import RESULTS, Range, points, sweep

EDGE = "published/edge-npu"

GRID = {
    "buffer_bytes": ["128 KiB", "512 KiB", "2 MiB"],
    "dram_bandwidth_bytes_per_s": ["12.8 GB/s", "25.6 GB/s", "102.4 GB/s"],
}
# Source: Torch_Sim_Frontend, examples/accel_results.md (tiny-cnn, 8 images)
LATENCIES_US = [1083.33, 560.16, 167.78, 1097.59, 561.14, 158.84, 1345.73, 693.57, 204.45]


def edge() -> AcceleratorSpec:
    spec = load(EDGE)
    assert isinstance(spec, AcceleratorSpec)
    return spec


def test_the_published_nine_machines() -> None:
    table = sweep(tiny_cnn(8), EDGE, **GRID)
    assert [round(s * 1e6, 2) for s in table.column("latency_s")] == LATENCIES_US
    assert table.column("tiles") == [184] * 3 + [46] * 3 + [17] * 3
    assert table.column("buffer_bytes") == [131_072] * 3 + [524_288] * 3 + [2_097_152] * 3
    assert table.column("dram_bandwidth_bytes_per_s")[:3] == [12_800_000_000, 25_600_000_000, 102_400_000_000]


def test_shares_of_every_machine_add_up_to_one() -> None:
    table = sweep(tiny_cnn(), EDGE, samples=30, buffer_bytes=Range("64 KiB", "4 MiB"), vector_lanes=[1, 64])
    for record in table.records:
        assert sum(
            v for k, v in record.items() if k.endswith("_share") and k.split("_share")[0] in sweeping.STALLS
        ) == (pytest.approx(1))
        assert record["buffer_peak_bytes"] <= record["buffer_bytes"]
        assert record["hot_spot"]


def test_a_sample_of_a_grid_has_no_machine_twice_and_is_the_same_for_the_same_seed() -> None:
    axes = {"array_rows": [8, 16, 32, 64], "vector_lanes": [1, 2, 4, 8]}
    drawn = points(edge(), axes, samples=10, seed=3)
    assert len({tuple(p.items()) for p in drawn}) == 10
    assert drawn == points(edge(), axes, samples=10, seed=3)
    assert drawn != points(edge(), axes, samples=10, seed=4)
    everything = points(edge(), axes, samples=99, seed=0)
    assert len({tuple(p.items()) for p in everything}) == 16


def test_ranges_are_drawn_evenly_by_factor_and_whole_where_the_ends_are() -> None:
    drawn = points(
        edge(), {"buffer_bytes": Range("1 KiB", "1 MiB"), "dram_latency_s": Range("10 ns", "1 us")}, samples=400, seed=0
    )
    sizes = [p["buffer_bytes"] for p in drawn]
    assert all(isinstance(s, int) and 1024 <= s <= 1_048_576 for s in sizes)
    assert 150 < sum(s < 32_768 for s in sizes) < 250  # half of ten octaves
    assert all(1e-8 <= p["dram_latency_s"] <= 1e-6 for p in drawn)


def test_a_machine_that_cannot_run_the_trace_says_why_and_the_others_go_on() -> None:
    table = sweep(tiny_cnn(), EDGE, buffer_bytes=[16, "2 MiB"])
    broken, fine = table.records
    assert broken["error"].startswith("aten.convolution(1x3x32x32, 16x3x3x3, 16): its smallest tile needs 12 bytes")
    assert broken["latency_s"] is None
    assert fine["error"] == ""
    assert [r["buffer_bytes"] for r in table.pareto("buffer_bytes")] == [2_097_152]


def test_csv_and_parquet_hold_the_same(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow.parquet", reason="pyarrow (the 'sweep' extra) is not installed")
    table = sweep(tiny_cnn(8), EDGE, path=tmp_path / "t.csv", **GRID)
    table.save(tmp_path / "t.parquet")
    with (tmp_path / "t.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["buffer_bytes", "dram_bandwidth_bytes_per_s", *RESULTS]
    read = arrow.read_table(tmp_path / "t.parquet").to_pylist()
    assert [float(r["latency_s"]) for r in rows] == [r["latency_s"] for r in read] == table.column("latency_s")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["t.csv", "t.parquet"]


def test_another_ending_is_refused_before_anything_is_simulated(tmp_path: Path) -> None:
    with pytest.raises(SimdeviceError, match=r"expected a name that ends in \.csv or \.parquet$"):
        sweep(tiny_cnn(), EDGE, path=tmp_path / "t.xlsx", array_rows=[1, 2])
    assert not list(tmp_path.iterdir())


def test_an_interrupted_sweep_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeping, "CHUNK", 2)
    told: list[tuple[int, int]] = []

    def interrupt(done: int, total: int) -> None:
        told.append((done, total))
        if done >= 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep(tiny_cnn(8), EDGE, path=tmp_path / "t.csv", progress=interrupt, **GRID)
    assert told == [(2, 9), (4, 9)]
    assert [p.name for p in tmp_path.iterdir()] == ["t.csv.partial"]
    with (tmp_path / "t.csv.partial").open("a") as file:
        file.write('{"chunk": 2, "rec')  # as a crash leaves it

    told.clear()
    table = sweep(tiny_cnn(8), EDGE, path=tmp_path / "t.csv", progress=lambda *c: told.append(c), **GRID)
    assert told == [(6, 9), (8, 9), (9, 9)]
    assert [round(s * 1e6, 2) for s in table.column("latency_s")] == LATENCIES_US
    assert [p.name for p in tmp_path.iterdir()] == ["t.csv"]


def test_the_progress_of_another_sweep_is_not_mixed_in(tmp_path: Path) -> None:
    (tmp_path / "t.csv.partial").write_text(json.dumps({"sweep": "other"}) + "\n")
    expected = r"t\.csv\.partial holds the progress of another sweep: remove it, or choose another path$"
    with pytest.raises(SimdeviceError, match=expected):
        sweep(tiny_cnn(), EDGE, path=tmp_path / "t.csv", array_rows=[1, 2])


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ({}, "a sweep needs a field to vary, such as buffer_bytes=['512 KiB', '2 MiB']"),
        ({"buffer_byte": [1]}, "published/edge-npu: unknown field 'buffer_byte': did you mean 'buffer_bytes'?"),
        ({"vector_lanes": [64, 0]}, "published/edge-npu: vector_lanes: expected more than zero, got 0"),
        ({"vector_lanes": "64,32"}, "vector_lanes: expected a list of values or a Range, got '64,32'"),
        ({"vector_lanes": []}, "vector_lanes: expected a list of values or a Range, got []"),
        ({"vector_lanes": Range(1, 8)}, "vector_lanes: a range has no grid; say how many to draw (samples=, --sample)"),
        ({"vector_lanes": Range(8, 1)}, "vector_lanes: expected 0 < low <= high in a range, got 8 to 1"),
    ],
)
def test_a_sweep_that_cannot_be_is_refused(axes: dict[str, object], message: str) -> None:
    with pytest.raises(SpecError, match=f"^{re.escape(message)}$"):
        sweep(tiny_cnn(), EDGE, **axes)  # type: ignore[arg-type]


def test_only_accelerators_are_swept() -> None:
    with pytest.raises(SpecError, match=r"^h100 is a roofline; a sweep needs an accelerator such as 'edge-npu'$"):
        sweep(tiny_cnn(), "h100", array_rows=[1])


def test_samples_are_counted_from_one() -> None:
    with pytest.raises(SpecError, match=r"^samples: expected one or more, got 0$"):
        sweep(tiny_cnn(), EDGE, samples=0, array_rows=[1])


def test_the_pareto_front_is_what_no_other_machine_beats() -> None:
    table = sweep(tiny_cnn(8), EDGE, **GRID)
    front = [(r["buffer_bytes"], round(r["latency_s"] * 1e6, 2)) for r in table.pareto("buffer_bytes")]
    assert front == [(131_072, 167.78), (524_288, 158.84)]
    with pytest.raises(UnknownNameError, match=r"^unknown column 'latency': did you mean 'latency_s'\?$"):
        table.pareto("buffer_bytes", "latency")


def test_the_front_is_drawn(tmp_path: Path) -> None:
    sweep(tiny_cnn(8), EDGE, **GRID).plot_pareto(tmp_path / "front.png", "buffer_bytes")
    assert (tmp_path / "front.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_a_picture_that_is_no_png_is_refused_and_not_written(tmp_path: Path) -> None:
    path = tmp_path / "front.pdf"
    table = sweep(tiny_cnn(8), EDGE, **GRID)
    with pytest.raises(SpecError, match=r"front\.pdf: expected a name that ends in \.png$"):
        table.plot_pareto(path, "buffer_bytes")
    with pytest.raises(SpecError, match=r"front\.pdf: expected a name that ends in \.png$"):
        write_png(sd.device(EDGE).run(tiny_cnn()), path)
    assert not path.exists()


@pytest.mark.parametrize("engine", ["python", "simpy"])
def test_any_engine_gives_the_same_table(engine: str) -> None:
    assert sweep(tiny_cnn(8), EDGE, engine=engine, **GRID) == sweep(tiny_cnn(8), EDGE, **GRID)


def test_the_cycle_engine_gives_the_same_table_of_quantised_machines() -> None:
    axes = {"quantise": [True], "buffer_bytes": ["128 KiB", "2 MiB"]}
    assert sweep(tiny_cnn(8), EDGE, engine="cycle", **axes) == sweep(tiny_cnn(8), EDGE, **axes)


def test_without_time_bytes_are_counted_all_the_same() -> None:
    nothing, real = sweep(tiny_cnn(8), EDGE, engine="null", **GRID), sweep(tiny_cnn(8), EDGE, **GRID)
    for name in ("tiles", "loaded_bytes", "stored_bytes"):
        assert nothing.column(name) == real.column(name)
    assert set(nothing.column("makespan_ps")) == {0}
    assert set(nothing.column("hot_spot")) == {""}


@pytest.mark.parametrize(
    "axes",
    [
        {
            "buffer_bytes": Range("64 KiB", "8 MiB"),
            "dram_bandwidth_bytes_per_s": Range("10 GB/s", "400 GB/s"),
            "dram_latency_s": Range("10 ns", "1 us"),
            "dram_channels": [1, 2, 3],
            "array_rows": [16, 32, 64],
            "tile_fraction": Range("0.1", "1"),
        },
        {"quantise": [True, False], "clock_hz": ["700 MHz", "1.3 GHz"], "launch_overhead_s": [0, "2 us"]},
        {"link": ["pcie5-x16", "nvlink4"], "operands": ["all", "products"], "transit_ops_per_byte": [0, "1.6 OP/B"]},
    ],
)
def test_every_column_is_what_a_run_of_the_machine_says(axes: dict[str, object]) -> None:
    table = sweep(tiny_cnn(8), EDGE, samples=20, **axes)  # type: ignore[arg-type]
    for record in table.records:
        machine = {name: record[name] for name in axes}
        assert record == {**machine, **columns_of(sd.device(EDGE, **machine).run(tiny_cnn(8)))}


def columns_of(run: Run) -> dict[str, object]:
    """A sweep's columns from a run's timeline, by the reports' own analyses."""
    part = {component.name: component for component in components(run)}
    spot = hot_spot(run)
    return {
        "latency_s": run.time_s,
        "makespan_ps": run.makespan_ps,
        "tiles": run.tiles,
        **{f"{stall.name.replace(' ', '_')}_share": stall.share for stall in stalls(run)},
        "hot_spot": spot.name if spot else "",
        "array_busy_share": part["matrix array"].share,
        "pe_efficiency_share": part["matrix array"].efficiency_share,
        "vector_busy_share": part["vector unit"].share,
        "memory_busy_share": part["memory channels"].share,
        "loaded_bytes": part["load engine"].work,
        "stored_bytes": part["store engine"].work,
        "buffer_peak_bytes": buffer_peak(run),
        "error": "",
    }


def test_two_processes_give_the_same_table() -> None:
    pytest.importorskip("joblib", reason="joblib (the 'sweep' extra) is not installed")
    assert sweep(tiny_cnn(8), EDGE, jobs=2, **GRID) == sweep(tiny_cnn(8), EDGE, **GRID)


def test_a_local_ray_gives_the_same_table() -> None:
    pytest.importorskip("ray", reason="Ray (the 'ray' extra) is not installed")
    assert sweep(tiny_cnn(8), EDGE, jobs=2, backend="ray", **GRID) == sweep(tiny_cnn(8), EDGE, **GRID)


def test_the_public_name_is_the_function() -> None:
    assert sd.sweep is sweep
    assert sd.Range is Range
