"""`simacc ntt`: the published table of RNS polynomial products, and one line for what cannot be."""

from __future__ import annotations

import pytest
from simacc_runner import Simacc

# Source: Torch_Sim_Frontend, examples/accel_results.md: N = 2**16, 24 limbs; on chip, then 0.5, 1.6, 3 and 6
# operations per byte in transit; us.
PUBLISHED = {
    ("edge-npu", 64): [6856.50, 21208.89, 9043.77, 6463.29, 6463.29],
    ("edge-npu", 8): [9719.49, 21294.90, 9129.78, 6549.30, 6549.30],
    ("dc-npu", 512): [489.10, 1407.21, 628.65, 463.50, 463.50],
    ("dc-npu", 16): [2789.18, 1502.45, 723.88, 558.73, 558.73],
}


def test_the_published_table(simacc: Simacc) -> None:
    data = simacc("ntt", "--json").json
    assert data["transit_ops_per_byte"] == [0, 0.5, 1.6, 3.0, 6.0]
    found = {(m["device"], m["vector_lanes"]): [round(us, 2) for us in m["latency_us"]] for m in data["machines"]}
    assert found == PUBLISHED
    shown = simacc("ntt").out
    for latencies in PUBLISHED.values():
        assert all(f"{us:,.2f}" in shown for us in latencies)


def test_one_device_has_its_own_lanes_unless_others_are_asked(simacc: Simacc) -> None:
    small = ("ntt", "--ring", 1024, "--limbs", 2, "--device", "dc-npu", "--json")
    given = simacc(*small, "--lanes", 4, "--lanes", 8, "--transit", 2).json
    assert [m["vector_lanes"] for m in given["machines"]] == [4, 8]
    assert given["transit_ops_per_byte"] == [2]
    own = simacc(*small, "--set", "vector_lanes=4", "--set", "transit_ops_per_byte=2").json
    assert [m["latency_us"] for m in own["machines"]] == [given["machines"][0]["latency_us"]]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--ring", 1000], "--ring: expected a power of two, got 1000"),
        (["--lanes", 0], "Invalid value for '--lanes': "),
        (["--limbs", 0], "Invalid value for '--limbs': "),
        (["--device", "h100"], "h100 is a roofline; an NTT needs an accelerator such as 'edge-npu'"),
        (["--engine", "fast"], "unknown engine 'fast': expected one of cycle, native, null, python, simpy"),
        (["--engine", "cycle"], "engine 'cycle' steps whole clock cycles: "),
        (["--set", "vector_lane=3"], "edge-npu: unknown field 'vector_lane': did you mean 'vector_lanes'?"),
        (
            ["--set", "vector_lanes=3", "--lanes", 3],
            "--set vector_lanes and --lanes say the same: give one of them",
        ),
    ],
)
def test_what_cannot_be_is_one_line(simacc: Simacc, arguments: list[object], complaint: str) -> None:
    assert simacc("ntt", *arguments).complaint.startswith(complaint)
