"""The baseline accelerator's published figures, to every printed digit.

Source of every figure: Torch_Sim_Frontend, docs/accel_spec.md and examples/accel_results.md.
"""

from __future__ import annotations

import pytest
from published_traces import tiny_cnn

from simdevice.devices import get
from simdevice.devices.accelerator import Accelerator
from simdevice.records import Run
from simdevice.records.program import UNITS
from simdevice.workloads.ntt import rns_product_trace


def run(device: str, trace: object, **overrides: object) -> Run:
    return get(device, **overrides).run(trace)  # type: ignore[arg-type]


def us(found: Run) -> float:
    return round(found.makespan_ps / 10**6, 2)


@pytest.mark.parametrize("engine", ["native", "python", "simpy"])
def test_tiny_cnn_by_export(engine: str) -> None:
    found = run("published/edge-npu", tiny_cnn(), engine=engine)
    assert us(found) == 104.44
    assert found.program is not None
    assert (found.program.operators, found.tiles) == (14, 14)
    share = {name: round(100 * ps / found.makespan_ps, 1) for name, ps in found.stalls.items()}
    assert (share["load_bandwidth"], share["dependency"]) == (59.8, 33.7)


def test_tiny_cnn_multiply_adds_and_pe_efficiency() -> None:
    found = run("published/edge-npu", tiny_cnn())
    assert found.program is not None
    on_array = found.program.column("unit") == UNITS.index("array")
    multiply_adds = int(found.program.column("work")[on_array].sum())
    assert multiply_adds == 2_802_304
    busy_cycles = int(found.program.column("compute_ticks")[on_array].sum()) // 1000
    # blocks x depth + 64: 32x1x27 + 8x1x144 + 2x2x288 + 1x1x64, and 4 x 64
    assert busy_cycles == 928 + 1216 + 1216 + 128
    assert round(100 * multiply_adds / (busy_cycles * 32 * 32), 1) == 78.5


def test_tiny_cnn_by_onnx() -> None:
    found = run("published/edge-npu", tiny_cnn(indices=False))
    assert us(found) == 99.96
    assert found.tiles == 14


def test_tiny_cnn_in_whole_cycles() -> None:
    found = run("published/edge-npu", tiny_cnn(), quantise=True, engine="cycle")
    assert found.makespan_ps == 104_439 * 1000
    assert found == run("published/edge-npu", tiny_cnn(), quantise=True, engine="native")


SWEEP = {
    "128 KiB": (184, [1083.33, 560.16, 167.78]),
    "512 KiB": (46, [1097.59, 561.14, 158.84]),
    "2 MiB": (17, [1345.73, 693.57, 204.45]),
}


@pytest.mark.parametrize("buffer_bytes", SWEEP)
def test_tiny_cnn_of_eight_images_over_nine_machines(buffer_bytes: str) -> None:
    tiles, latencies = SWEEP[buffer_bytes]
    found = [
        run("published/edge-npu", tiny_cnn(8), buffer_bytes=buffer_bytes, dram_bandwidth_bytes_per_s=bandwidth)
        for bandwidth in ("12.8 GB/s", "25.6 GB/s", "102.4 GB/s")
    ]
    assert [us(r) for r in found] == latencies
    assert {r.tiles for r in found} == {tiles}


def test_a_larger_buffer_can_be_slower() -> None:
    """Bigger tiles overlap less: what is loaded whole is computed only then."""
    small, large = (run("published/edge-npu", tiny_cnn(8), buffer_bytes=b) for b in ("128 KiB", "2 MiB"))
    assert large.makespan_ps > small.makespan_ps
    assert large.stalls["dependency"] > small.stalls["dependency"]


def test_a_larger_array_can_be_slower() -> None:
    """Every tile fills and drains the array: 64 + 64 cycles where 32 + 32 would do. The last product,
    (1, 64) x (64, 10), has one block on both."""
    small, large = (run("published/edge-npu", tiny_cnn(), array_rows=n, array_cols=n).busy_ps[-1] for n in (32, 64))
    assert large - small == 64_000


NTT = {
    ("published/edge-npu", 64): [6856.50, 21208.89, 9043.77, 6463.29, 6463.29],
    ("published/edge-npu", 8): [9719.49, 21294.90, 9129.78, 6549.30, 6549.30],
    ("published/dc-npu", 512): [489.10, 1407.21, 628.65, 463.50, 463.50],
    ("published/dc-npu", 16): [2789.18, 1502.45, 723.88, 558.73, 558.73],
}


@pytest.mark.parametrize(("preset", "lanes"), NTT)
def test_rns_polynomial_product_on_chip_and_in_transit(preset: str, lanes: int) -> None:
    """N = 2**16, 24 limbs; transforms on chip (0), then in transit at 0.5, 1.6, 3 and 6 operations per byte."""
    trace = rns_product_trace(2**16, 24)
    found = [run(preset, trace, vector_lanes=lanes, transit_ops_per_byte=o) for o in (0, "0.5 OP/B", "1.6 OP/B", 3, 6)]
    assert [us(r) for r in found] == NTT[preset, lanes]


def test_no_schedule_beats_the_bounds() -> None:
    for trace in (tiny_cnn(), tiny_cnn(8), rns_product_trace(2**12, 3)):
        for preset in ("published/edge-npu", "published/dc-npu"):
            found = run(preset, trace)
            assert found.makespan_ps >= max(found.bounds_ps.values())
            assert found.busy_ps.sum() + found.stalls["store_tail"] == found.makespan_ps


def test_the_device_says_what_it_is() -> None:
    device = get("published/edge-npu", engine="python")
    assert isinstance(device, Accelerator)
    assert repr(device) == "Accelerator('published/edge-npu', engine='python')"
