from __future__ import annotations

from simacc_runner import Simacc


def test_devices_lists_presets_with_their_numbers(simacc: Simacc) -> None:
    shown = simacc("devices")
    assert shown.code == 0
    for name in ("a100", "dc-npu", "edge-npu", "h100", "optical", "host-cpu", "nvlink4", "pcie5-x16"):
        assert name in shown.out
    data = simacc("devices", "--json").json
    (h100,) = [device for device in data["devices"] if device["name"] == "h100"]
    assert h100["peak_flops_per_s"] == 989e12
    assert h100["compute_efficiency"] == 0.55


def test_models_lists_names_with_parameters(simacc: Simacc) -> None:
    assert "llama3-70b" in simacc("models").out
    data = {row["name"]: row["parameters"] for row in simacc("models", "--json").json}
    assert data["llama3-8b"] == 8_030_261_248
    assert data["tiny-cnn"] == 24_458
