"""Levels over time and busy intervals of runs with tiles."""

from __future__ import annotations

import numpy as np
import pytest
from tile_runs import ADD, edge, made, tiny_cnn

from simdevice.analysis.occupancy import (
    Series,
    buffer_peak,
    buffer_series,
    busy_fraction,
    columns,
    fifo_series,
    lanes,
    levels,
)


def test_buffer_and_fifo_over_time() -> None:
    # two additions, the second prefetched: it has its space at 8.12 us and is loaded at 16.24 us
    run = edge().run(made((ADD, (0, 1, 2)), (ADD, (0, 1, 3))))
    buffer = buffer_series(run)
    # computes end at 8.32 and 16.44 us, stores at 12.44 and 20.56 us
    assert buffer.times_ps.tolist() == [0, 8_120_000, 8_320_000, 12_440_000, 16_440_000, 20_560_000]
    assert buffer.values.tolist() == [153_600, 307_200, 204_800, 153_600, 51_200, 0]
    assert buffer_peak(run) == 307_200
    mean = (8.12 * 153_600 + 0.2 * 307_200 + 4.12 * 204_800 + 4.0 * 153_600 + 4.12 * 51_200) / 20.56
    assert levels(run)[0].mean == pytest.approx(mean)
    assert levels(run)[0].capacity == 2 * 2**20
    assert fifo_series(run).values.max() == 0  # no tile ever waits for its unit


def test_the_peak_is_that_of_the_series() -> None:
    for trace in (tiny_cnn(), tiny_cnn(8)):
        for size in ("128 KiB", "2 MiB"):
            run = edge(buffer_bytes=size).run(trace)
            series = buffer_series(run)
            assert buffer_peak(run) == series.values.max()
            assert series.values[-1] == 0
            assert (np.diff(series.times_ps) > 0).all()


def test_lanes_are_the_busy_times_of_each_engine() -> None:
    run = edge().run(made((ADD, (0, 1, 2)), (ADD, (0, 1, 3))))
    found = {lane.name: (lane.start_ps.tolist(), lane.end_ps.tolist()) for lane in lanes(run)}
    assert found == {
        "load": ([0, 8_120_000], [8_120_000, 16_240_000]),
        "vector": ([8_120_000, 16_240_000], [8_320_000, 16_440_000]),
        "store": ([8_320_000, 16_440_000], [12_440_000, 20_560_000]),
    }


def test_busy_fraction_adds_up_to_the_busy_time() -> None:
    run = edge(buffer_bytes="128 KiB").run(tiny_cnn(8))
    edges = np.linspace(0, run.makespan_ps, 101)
    for lane in lanes(run):
        share = busy_fraction(lane, edges)
        assert share.min() >= 0
        assert share.max() <= 1 + 1e-12
        assert (share * np.diff(edges)).sum() == pytest.approx((lane.end_ps - lane.start_ps).sum())


def test_columns_hold_the_highest_value_and_the_mean() -> None:
    level = Series(np.array([2, 4, 5, 9]), np.array([3, 0, 8, 1]))
    most, mean = columns(level, np.array([0.0, 1.0, 4.0, 8.0, 10.0]))
    # nothing; 3 from 2 to 4; 0 then 8 from 5 to 8; 8 until 9, then 1
    assert most.tolist() == [0, 3, 8, 8]
    assert mean.tolist() == [0, 3 * 2 / 3, 8 * 3 / 4, (8 + 1) / 2]


def test_columns_add_up_to_the_mean_level() -> None:
    run = edge(buffer_bytes="128 KiB").run(tiny_cnn(8))
    series = buffer_series(run)
    most, mean = columns(series, np.linspace(0, run.makespan_ps, 101))
    assert mean.mean() == pytest.approx(series.mean(run.makespan_ps))
    assert most.max() == series.values.max()
    assert (most >= mean * (1 - 1e-12)).all()
