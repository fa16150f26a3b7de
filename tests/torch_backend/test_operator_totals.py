"""Sums per operator outside record(), on request: those of a recording of the same program, in bounded memory."""

from __future__ import annotations

import itertools

import pytest
import torch

from simdevice.torch_backend import session
from simdevice.torch_backend.process import PROCESS

MACHINES = ["h100", "edge-npu"]


def program(steps: int) -> None:
    x = torch.ones(64, 64, device="simacc")
    for _ in range(steps):
        x = (x @ x).relu() * 0.01
        event = torch.simacc.Event(enable_timing=True)
        event.record()
        x.sum().item()


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("most_rows", [1 << 16, 10])  # kept whole; forgotten at every wait
def test_they_are_those_of_a_recording(monkeypatch, machine, most_rows):
    torch.simacc.configure(machine)
    with torch.simacc.record() as rec:
        program(8)
    sums = rec.run.trace.groups("operator")
    busy_s = {k: ps / 1e12 for k, ps in zip(sums.keys, sums.sums(rec.run.busy_ps).tolist(), strict=True)}
    monkeypatch.setattr(session, "MOST_ROWS", most_rows)
    torch.simacc.configure(machine, operator_totals=True)
    program(8)
    totals = {total.name: total for total in torch.simacc.operator_totals()}
    expected = {name: t for name, t in rec.trace.totals("operator").items() if name != "simacc.synchronize"}
    assert totals.keys() - {"simacc.synchronize"} == expected.keys()
    for name, theirs in expected.items():
        ours = totals[name]
        assert (ours.calls, ours.flops, ours.moved_bytes) == (theirs.calls, theirs.flops, theirs.bytes)
        assert ours.time_s == pytest.approx(busy_s[name], rel=1e-12)
    # 8 products of 64^3 multiply-adds
    assert (totals["aten.mm"].calls, totals["aten.mm"].flops) == (8, 8 * 2 * 64**3)
    assert torch.simacc.time_s() == pytest.approx(rec.run.time_s, rel=1e-12)


def test_calls_are_not_kept(monkeypatch):
    monkeypatch.setattr(session, "MOST_ROWS", 20)
    torch.simacc.configure("h100", operator_totals=True)
    for _ in range(5):
        program(10)  # 7 rows a step: made, product, relu, scaled, event, sum, copied, waited
        torch.simacc.time_s()
        assert sum(len(rows) for rows in PROCESS.root._rows) <= 80


def test_events_before_and_after_rows_are_forgotten_have_their_times(monkeypatch):
    monkeypatch.setattr(session, "MOST_ROWS", 4)
    torch.simacc.configure("h100", operator_totals=True)
    x = torch.zeros(670_000, device="simacc")  # x + x takes 3 us
    events = [torch.simacc.Event(enable_timing=True) for _ in range(3)]
    for event in events:
        event.record()
        torch.simacc.synchronize()
        x + x
        torch.simacc.synchronize()
        torch.simacc.time_s()
    gaps = [a.elapsed_time(b) for a, b in itertools.pairwise(events)]
    assert gaps == pytest.approx([3e-3, 3e-3], abs=1e-15)


def test_recordings_count_too_and_order_is_by_time():
    torch.simacc.configure("h100", operator_totals=True)
    x = torch.ones(1000, 1000, device="simacc")
    with torch.simacc.record():
        x @ x
    x @ x
    totals = torch.simacc.operator_totals()
    assert next(t for t in totals if t.name == "aten.mm").calls == 2
    assert [t.time_s for t in totals] == sorted((t.time_s for t in totals), reverse=True)


def test_without_a_request_there_are_none():
    with pytest.raises(RuntimeError, match=r"on request: torch.simacc.configure\(operator_totals=True\)$"):
        torch.simacc.operator_totals()
