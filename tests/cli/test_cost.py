from __future__ import annotations

from pathlib import Path

import pytest
from simacc_runner import Simacc


@pytest.fixture
def saved(simacc: Simacc, tmp_path: Path) -> Path:
    path = tmp_path / "t.json"
    assert simacc("trace", "tiny-cnn", "-o", path).code == 0
    return path


def test_a_model_and_its_saved_trace_cost_the_same(simacc: Simacc, saved: Path) -> None:
    from_model, from_file = (simacc("cost", target, "--json").json for target in ("tiny-cnn", saved))
    assert from_model == from_file
    assert from_file["device"] == "h100"


def test_a_slower_memory_takes_longer(simacc: Simacc, saved: Path) -> None:
    usual = simacc("cost", saved, "--json").json["time_s"]
    halved = simacc("cost", saved, "--set", "dram_bandwidth_bytes_per_s=1.675 TB/s", "--json").json["time_s"]
    assert usual < halved <= 2 * usual + 1e-9


def test_the_table_names_device_and_operators(simacc: Simacc, saved: Path) -> None:
    shown = simacc("cost", saved, "--device", "a100", "--top", 2)
    assert shown.code == 0
    assert "a100" in shown.out
    assert shown.out.count(" aten.") == 2


def test_the_page_says_whether_the_machine_could_hold_it(simacc: Simacc, saved: Path) -> None:
    found = simacc("cost", saved, "--json").json
    assert found["memory_capacity_bytes"] == 80 * 10**9
    assert found["peak_live_bytes"] == simacc("trace", "tiny-cnn", "--json").json["peak_live_bytes"]
    assert " alive at the peak, of 80 GB on h100" in simacc("cost", saved).out
    small = simacc("cost", saved, "--set", "memory_capacity_bytes=1kB").out
    assert " alive at the peak, more than the 1 kB of h100" in small


def test_a_fused_bound_uses_no_part_of_the_machine_more_than_all_the_time(simacc: Simacc, saved: Path) -> None:
    fused = simacc("cost", saved, "--fused", "--json").json
    assert max(fused["utilisation"].values()) <= 1
    assert fused["bounds_s"]["whole_trace"] <= fused["time_s"] == fused["bounds_s"]["fused"]
    assert fused["bounds_s"]["unfused"] == simacc("cost", saved, "--json").json["time_s"]


def test_options_for_tracing_do_not_go_with_a_trace(simacc: Simacc, saved: Path) -> None:
    assert simacc("cost", saved, "--decode", 5).complaint == f"{saved} is a trace already: --decode doesn't apply"


def test_a_damaged_trace_is_one_line(simacc: Simacc, saved: Path) -> None:
    saved.write_text(saved.read_text()[:-20])
    assert simacc("cost", saved).complaint == f"{saved}: no trace: expected JSON or .npz"
    saved.write_text("{}")
    assert simacc("cost", saved).complaint.startswith(f"{saved}: expected a trace, a list of operators, or a ")


def test_options_of_the_command_are_no_device_fields(simacc):
    said = simacc("cost", "gpt2", "--set", "fused=1").complaint
    assert said == "--set fused: that is no field of a device; give --fused where the command has it"
