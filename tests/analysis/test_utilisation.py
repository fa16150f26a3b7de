"""Utilisation, levels and hot-spots of runs with tiles."""

from __future__ import annotations

import pytest
from tile_runs import ADD, WORDS, edge, made, tiny_cnn

import simdevice as sd
from simdevice.analysis.occupancy import buffer_peak, lanes, levels
from simdevice.analysis.utilisation import components, hot_spot, stalls
from simdevice.records import Run, Signature


def part(run: Run, name: str) -> object:
    return next(c for c in components(run) if c.name == name)


def test_components_of_one_addition() -> None:
    # 12,800 floats: loads 102,400 B in 8.12 us, computes 200 cycles, stores 51,200 B in 4.12 us: 12.44 us in all
    run = edge().run(made((ADD, (0, 1, 2))))
    found = {c.name: c for c in components(run)}
    assert list(found) == ["matrix array", "vector unit", "load engine", "store engine", "memory channels"]
    assert (found["vector unit"].work, found["load engine"].work, found["store engine"].work) == (
        12_800,
        102_400,
        51_200,
    )
    assert found["vector unit"].time_s == pytest.approx(200e-9)
    assert found["vector unit"].efficiency_share == pytest.approx(1)
    assert found["load engine"].share == pytest.approx(8.12 / 12.44)
    # 8 us of the 8.12 move bytes at a channel's full rate
    assert found["load engine"].efficiency_share == pytest.approx(8 / 8.12)
    # two channels
    assert found["memory channels"].share == pytest.approx((8.12 + 4.12) / 12.44 / 2)
    assert found["matrix array"].share == found["matrix array"].efficiency_share == 0


def test_published_pe_efficiency() -> None:
    # Source: Torch_Sim_Frontend, examples/accel_results.md
    assert round(100 * part(edge().run(tiny_cnn()), "matrix array").efficiency_share, 1) == 78.5  # type: ignore[attr-defined]


def test_stalls_are_the_split_as_shares() -> None:
    run = edge().run(tiny_cnn())
    found = stalls(run)
    assert sum(s.share for s in found) == pytest.approx(1)
    assert {s.name: round(100 * s.share, 1) for s in found}["load bandwidth"] == 59.8


def test_the_ready_fifo_fills_where_computing_is_slower_than_loading() -> None:
    run = edge(vector_lanes=1, dram_bandwidth_bytes_per_s="1 TB/s", noc_bandwidth_bytes_per_s="1 TB/s").run(
        made((ADD, (0, 1, 2)), (ADD, (0, 1, 3)), (ADD, (0, 1, 4)))
    )
    assert levels(run)[1].peak == 2
    assert hot_spot(run).name == "vector unit"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("overrides", "trace", "expected"),
    [
        ({}, tiny_cnn(indices=False), "off-chip memory"),  # as published
        ({"noc_bandwidth_bytes_per_s": "10 GB/s"}, tiny_cnn(), "network on chip"),
        (
            {"dram_bandwidth_bytes_per_s": "100 TB/s", "noc_bandwidth_bytes_per_s": "100 TB/s"},
            tiny_cnn(64),
            "matrix array",
        ),
        ({"launch_overhead_s": "1 ms"}, tiny_cnn(), "dependencies"),
    ],
)
def test_the_hot_spot_is_the_largest_share(overrides: dict[str, object], trace: sd.Trace, expected: str) -> None:
    found = hot_spot(edge(**overrides).run(trace))
    assert found is not None
    assert found.name == expected


def test_the_hot_spot_says_why() -> None:
    found = hot_spot(edge().run(tiny_cnn(indices=False)))
    assert found is not None
    assert (
        found.reason
        == "units wait for loads 62.5% of the time; a transfer gets 12.8 GB/s and 2.7% of a load is latency"
    )


def test_a_full_buffer_is_a_hot_spot() -> None:
    # fills load nothing and store 51,200 bytes each; two fit, so each waits for a store, 4.12 us
    fill = Signature("aten.full", (), (WORDS,))
    run = edge(buffer_bytes=102_400).run(made(*[(fill, (i,)) for i in range(9)]))
    found = hot_spot(run)
    assert found is not None
    assert (found.name, found.reason) == ("buffer", "loads wait until tiles leave the 102.4 kB buffer")


def test_a_device_without_tiles_has_none_of_it() -> None:
    run = sd.device("h100").run(tiny_cnn())
    assert (components(run), levels(run), stalls(run), lanes(run)) == ([], [], [], [])
    assert hot_spot(run) is None
    assert buffer_peak(run) == 0
