from __future__ import annotations

from simacc_runner import Simacc


def test_equal_traces_have_no_difference(simacc: Simacc) -> None:
    simacc("trace", "tiny-cnn", "-o", "a.npz")
    found = simacc("diff", "a.npz", "tiny-cnn", "--check")
    assert found.code == 0
    assert "the same operators with the same shapes in the same order" in found.out


def test_different_arithmetic_is_shown_and_checked(simacc: Simacc) -> None:
    simacc("trace", "tiny-cnn", "-o", "a.npz")
    simacc("trace", "tiny-cnn", "--batch", 2, "-o", "b.json")
    assert simacc("diff", "a.npz", "b.json").code == 0
    checked = simacc("diff", "a.npz", "b.json", "--check", "--json")
    assert checked.code == 1
    data = checked.json
    assert data["same_arithmetic"] is False
    assert data["after"]["flops"] == 2 * data["before"]["flops"]
    assert data["after"]["weight_bytes"] == data["before"]["weight_bytes"]
