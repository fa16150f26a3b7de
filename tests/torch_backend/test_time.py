"""What time means on the live device: events, streams, synchronising reads, transfers, by hand.

Operators here are x + x on n float32 numbers on an H100: 12 n bytes at 3.35 TB/s x 0.80 =
2.68e12 B/s; n = 2.68e6 / 12 would be 1 us. With n = 670,000: 8,040,000 bytes = exactly 3 us.
Transfers over PCIe 5: 5 us + 4 n bytes / 64 GB/s = 5 us + 41.875 us = 46.875 us.
"""

from __future__ import annotations

import pytest
import torch

from simdevice.devices import get

N = 670_000
ADD_MS = 3e-3
COPY_MS = 46.875e-3
# A scalar read: 5 us + 4 bytes / 64 GB/s = 5 us + 62.5 ps, rounded up to 63 ps.
ITEM_PS = 5_000_063


@pytest.fixture
def x():
    return torch.zeros(N).to("simacc")


def event() -> torch.Event:
    return torch.simacc.Event(enable_timing=True)


def test_an_event_is_the_completion_of_everything_before_it(x):
    first, middle, last = event(), event(), event()
    first.record()
    x + x
    middle.record()
    x + x
    x + x
    last.record()
    assert first.elapsed_time(middle) == pytest.approx(ADD_MS, abs=0)
    assert middle.elapsed_time(last) == pytest.approx(2 * ADD_MS, abs=0)
    assert first.query()
    assert last.query()


def test_elapsed_time_is_the_same_before_and_after_synchronize(x):
    a, b = event(), event()
    a.record()
    x + x
    b.record()
    before = a.elapsed_time(b)
    torch.simacc.synchronize()
    x + x
    assert a.elapsed_time(b) == before == ADD_MS


def test_an_event_recorded_again_moves(x):
    a, b = event(), event()
    a.record()
    b.record()
    x + x
    b.record()
    assert a.elapsed_time(b) == ADD_MS


def test_events_without_timing_or_record_are_refused_by_pytorch(x):
    with pytest.raises(ValueError, match="enable_timing=True"):
        torch.simacc.Event().elapsed_time(event())
    with pytest.raises(ValueError, match="must be recorded"):
        event().elapsed_time(event())


def test_two_streams_with_wait_event_share_one_queue(x):
    one, two = torch.simacc.Stream(), torch.simacc.Stream()
    start, done_one, done_two = event(), event(), event()
    with torch.simacc.record() as rec:
        start.record()
        with one:
            x + x
            done_one.record()
        two.wait_event(done_one)
        with two:
            assert torch.simacc.current_stream() == two
            x + x
            done_two.record()
        x + x  # the default stream has nothing to wait for
    assert torch.simacc.current_stream() == torch.simacc.default_stream()
    assert start.elapsed_time(done_one) == ADD_MS
    assert start.elapsed_time(done_two) == 2 * ADD_MS
    names = [op.name for op in rec.trace.ops]
    # The wait is written just before the waiting stream's next operator.
    assert names == [
        "simacc.record_event",
        "aten.add",
        "simacc.record_event",
        "simacc.wait_event",
        "aten.add",
        "simacc.record_event",
        "aten.add",
        "simacc.synchronize",
    ]
    assert rec.run.makespan_ps == 9_000_000
    assert get("h100").run(rec.trace) == rec.run


def test_a_wait_on_a_stream_that_submits_nothing_is_never_written(x):
    waiting = torch.simacc.Stream()
    e = event()
    with torch.simacc.record() as rec:
        e.record()
        waiting.wait_event(e)
        x + x
    assert "simacc.wait_event" not in [op.name for op in rec.trace.ops]


def test_of_two_waits_the_later_event_says_both(x):
    """The frontier only grows, so a stream that waits for long holds one event, the latest."""
    waiting, early, late = torch.simacc.Stream(), event(), event()
    with torch.simacc.record() as rec:
        early.record()
        x + x
        late.record()
        waiting.wait_event(late)
        waiting.wait_event(early)
        with waiting:
            x + x
    waits = [op for op in rec.trace.ops if op.name == "simacc.wait_event"]
    recorded = [op for op in rec.trace.ops if op.name == "simacc.record_event"]
    assert [op.inputs[0].id for op in waits] == [recorded[1].outputs[0].id]
    assert get("h100").run(rec.trace) == rec.run


def test_a_scalar_read_crosses_the_link_and_holds_back_what_follows(x):
    torch.simacc.configure("h100", launch_overhead_s="1 us")
    with torch.simacc.record() as rec:
        x[0].item()
        x + x
    run = rec.run
    # The host issues the copy by 1 us and waits for it to end; it issues the addition 1 us later.
    item, sync, add, _ = range(4)
    assert [op.name for op in rec.trace.ops] == [
        "simacc.copy_to_host",
        "simacc.synchronize",
        "aten.add",
        "simacc.synchronize",
    ]
    assert run.start_ps[item] == 1_000_000
    assert run.end_ps[sync] == run.end_ps[item] == 1_000_000 + ITEM_PS
    assert run.start_ps[add] == 1_000_000 + ITEM_PS + 1_000_000
    assert run.end_ps[add] == run.start_ps[add] + 3_000_000
    assert get("h100", launch_overhead_s="1 us").run(rec.trace) == run


def test_launch_overhead_hides_behind_a_busy_queue(x):
    torch.simacc.configure("h100", launch_overhead_s="1 us")
    with torch.simacc.record() as rec:
        for _ in range(4):
            x + x
    # Issued at 1, 2, 3, 4 us; the queue is busy from 1 us on: 1 + 4 x 3 us.
    assert rec.run.makespan_ps == 13_000_000
    assert rec.run.start_ps[:4].tolist() == [1_000_000, 4_000_000, 7_000_000, 10_000_000]


def test_copies_take_link_time_and_only_a_blocking_read_waits(x):
    host = torch.zeros(N)
    with torch.simacc.record() as rec:
        y = host.to("simacc")
        y.to("cpu", non_blocking=True)
        y.cpu()
    assert [op.name for op in rec.trace.ops] == [
        "simacc.copy_to_device",
        "simacc.copy_to_host",
        "simacc.copy_to_host",
        "simacc.synchronize",
        "simacc.synchronize",
    ]
    assert rec.run.makespan_ps == 3 * 46_875_000
    assert rec.run.bounds_ps["link"] == 3 * 46_875_000


def test_record_starts_time_at_zero_and_adds_to_what_encloses_it(x):
    torch.simacc.configure("h100")
    x + x
    outside = torch.simacc.time_s()
    with torch.simacc.record() as outer:
        x + x
        with torch.simacc.record() as inner:
            x + x
            x + x
        x + x
    assert inner.run.makespan_ps == 6_000_000
    assert inner.run.start_ps[0] == 0
    assert outer.run.makespan_ps == 12_000_000
    assert outer.trace.flops == 4 * N
    assert inner.trace.flops == 2 * N
    assert torch.simacc.time_s() == outside + 12e-6
    for rec in (inner, outer):
        assert get("h100").run(rec.trace) == rec.run


def test_events_outlive_the_recording_they_were_made_in(x):
    a, b, c = event(), event(), event()
    a.record()
    x + x
    with torch.simacc.record():
        x + x
        b.record()
    x + x
    c.record()
    assert a.elapsed_time(b) == pytest.approx(2 * ADD_MS)
    assert b.elapsed_time(c) == pytest.approx(ADD_MS)


def test_a_run_asked_for_too_early_says_so(x):
    with (
        torch.simacc.record() as rec,
        pytest.raises(RuntimeError, match=r"^the run is there once the record\(\) block has ended$"),
    ):
        _ = rec.run


def test_nonzero_waits_for_its_size(x):
    with torch.simacc.record() as rec:
        torch.nonzero(x)
        x[x > 0]
        x + x
    names = [op.name for op in rec.trace.ops]
    assert names.count("simacc.synchronize") == 3  # nonzero, the mask, and the end of the block


def test_indexing_a_mask_by_numbers_does_not_wait(x):
    mask, numbers = x[:8] > 0, torch.tensor([1, 2]).to("simacc")
    with torch.simacc.record() as rec:
        mask[numbers]  # the index decides, not what is indexed
    assert [op.name for op in rec.trace.ops] == ["aten.index", "simacc.synchronize"]
