"""What a recording survives: rules that fail, types without arithmetic, recordings that end in another order."""

from __future__ import annotations

import pytest
import torch

from simdevice.costs import Rule, registry
from simdevice.devices import get


def test_a_rule_that_raises_makes_its_operator_unknown_and_nothing_else(monkeypatch):
    def fail(signature):
        raise ZeroDivisionError("division by zero")

    monkeypatch.setitem(registry._RULES, "aten.hypot", Rule(fail))
    x = torch.ones(3, 5, device="simacc")
    with torch.simacc.record() as rec:
        torch.hypot(x, x)
        x.cosh()
    assert rec.trace.unknown() == {"aten.hypot": "its cost rule raised ZeroDivisionError: division by zero"}
    # hypot reads two and writes one tensor of 60 bytes; cosh counts 1 per element
    assert [(op.name, op.cost.bytes, op.cost.flops) for op in rec.trace.ops][:2] == [
        ("aten.hypot", 180, None),
        ("aten.cosh", 120, 15),
    ]
    assert get("h100").run(rec.trace) == rec.run


@pytest.mark.parametrize(("dtype", "bytes_per_element"), [(torch.bits8, 1), (torch.bits16, 2)])
def test_types_without_arithmetic_are_recorded_by_their_size(dtype, bytes_per_element):
    x = torch.empty(8, dtype=dtype, device="simacc")
    with torch.simacc.record() as rec:
        x.clone()
    assert rec.trace.bytes == 2 * 8 * bytes_per_element


def test_recordings_may_end_in_any_order():
    x = torch.ones(3, device="simacc")
    first, second = torch.simacc.record(), torch.simacc.record()
    first.__enter__()
    second.__enter__()
    x + x
    first.__exit__(None, None, None)
    x * x
    second.__exit__(None, None, None)
    names = [op.name for op in second.trace.ops if not op.name.startswith("simacc.")]
    assert names == ["aten.add", "aten.mul"]
    assert get("h100").run(second.trace) == second.run


def test_a_recording_used_again_forgets_its_first_run():
    x = torch.ones(3, device="simacc")
    rec = torch.simacc.record()
    with rec:
        x + x
    with rec:
        with pytest.raises(RuntimeError, match=r"^the trace is there once the record\(\) block has ended$"):
            _ = rec.trace
        x * x
    assert [op.name for op in rec.trace.ops] == ["aten.mul", "simacc.synchronize"]
