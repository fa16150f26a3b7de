"""Specs are exact, frozen and validated; every mistake is one line."""

from __future__ import annotations

import pickle
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simdevice.errors import SpecError
from simdevice.hardware import AcceleratorSpec, LinkSpec, RooflineSpec, load


def roofline(**overrides):
    fields = {
        "name": "part",
        "peak_flops_per_s": "100 TFLOP/s",
        "dram_bandwidth_bytes_per_s": "1 TB/s",
        "memory_capacity_bytes": "16 GB",
        "link": "pcie5-x16",
    }
    return RooflineSpec(**{**fields, **overrides})


def test_whole_quantities_are_ints_and_others_fractions():
    spec = load("edge-npu")
    assert (spec.dram_bandwidth_bytes_per_s, type(spec.dram_bandwidth_bytes_per_s)) == (25_600_000_000, int)
    assert spec.dram_latency_s == Fraction(1, 10**7)
    assert (spec.tile_fraction, type(spec.tile_fraction)) == (Fraction(1, 2), Fraction)


def test_effective_rates_are_exact():
    spec = load("h100")
    # 989e12 * 0.55 and 3.35e12 * 0.80
    assert spec.flops_per_s == Fraction(543_950_000_000_000)
    assert spec.dram_bytes_per_s == Fraction(2_680_000_000_000)


def test_an_array_reaches_two_operations_per_cell_and_cycle():
    assert load("edge-npu").peak_flops_per_s == 2 * 32 * 32 * 10**9


def test_replace_gives_a_new_validated_spec():
    spec = load("edge-npu")
    other = spec.replace(buffer_bytes="512 KiB", quantise=True)
    assert (other.buffer_bytes, other.quantise) == (524_288, True)
    assert spec.buffer_bytes == 2 * 2**20
    assert other.replace(buffer_bytes="2 MiB", quantise=False) == spec


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            {"dram_bandwidth_bytes_per_s": "-5 GB/s"},
            "part: dram_bandwidth_bytes_per_s: expected more than zero, got '-5 GB/s'",
        ),
        ({"dram_bandwidth_bytes_per_s": 0}, "part: dram_bandwidth_bytes_per_s: expected more than zero, got 0"),
        ({"launch_overhead_s": "-1 us"}, "part: launch_overhead_s: expected zero or more, got '-1 us'"),
        ({"compute_efficiency": 1.5}, "part: compute_efficiency: expected at most 1, got 1.5"),
        ({"memory_capacity_bytes": "1.5 B"}, "part: memory_capacity_bytes: expected a whole number, got '1.5 B'"),
        ({"peak_flops_per_s": float("inf")}, "part: peak_flops_per_s: expected a finite number, got inf"),
        ({"peak_flops_per_s": True}, "part: peak_flops_per_s: expected a quantity in FLOP/s, got True"),
        (
            {"memory_capacity_bytes": "8 Gi"},
            "part: memory_capacity_bytes: unit 'Gi' in '8 Gi' is not a unit of B: did you mean 'GiB'?",
        ),
        ({"dram_bandwith": 1}, "part: unknown field 'dram_bandwith': did you mean 'dram_bandwidth_bytes_per_s'?"),
        ({"link": 3}, "part: link: input should be a valid string, got 3"),
    ],
)
def test_a_bad_value_is_one_line_that_names_the_field(overrides, message):
    with pytest.raises(SpecError) as caught:
        roofline().replace(**overrides)
    assert str(caught.value) == message


def test_a_missing_field_is_named():
    with pytest.raises(SpecError, match=r"^field 'link' is missing$"):
        RooflineSpec(name="x", peak_flops_per_s=1, dram_bandwidth_bytes_per_s=1, memory_capacity_bytes=1)


def test_specs_cannot_be_changed():
    with pytest.raises(ValueError, match="frozen"):
        roofline().link = "nvlink4"


def test_specs_compare_hash_and_pickle_by_value():
    spec = roofline()
    assert pickle.loads(pickle.dumps(spec)) == spec == roofline()
    assert hash(spec) == hash(roofline())
    assert spec != spec.replace(link="nvlink4")


@given(st.fractions(min_value=Fraction(1, 10**6), max_value=10**15))
def test_any_positive_rational_rate_survives_unchanged(rate):
    spec = LinkSpec(name="l", bandwidth_bytes_per_s=rate, latency_s=0)
    assert spec.bandwidth_bytes_per_s == rate
    assert spec.replace() == spec


def test_fields_are_those_of_the_accelerator_model():
    assert set(AcceleratorSpec.model_fields) == {
        *("name", "kind", "clock_hz", "array_rows", "array_cols", "vector_lanes", "buffer_bytes", "tile_fraction"),
        *("dram_bandwidth_bytes_per_s", "dram_channels", "dram_latency_s", "noc_bandwidth_bytes_per_s"),
        *("noc_latency_s", "transit_ops_per_byte", "memory_capacity_bytes", "quantise", "launch_overhead_s", "link"),
        "operands",
    }
