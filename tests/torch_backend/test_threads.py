"""Recorders in several threads, processes and failures: nothing lost, nothing mixed, nothing leaked."""

from __future__ import annotations

import contextlib
import gc
import resource
import threading

import pytest
import torch
from torch import nn

from simdevice.devices import get
from simdevice.torch_backend.process import PROCESS


def train(width: int, steps: int) -> torch.simacc.Recording:
    torch.manual_seed(width)
    model = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1)).to("simacc")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x = torch.ones(4, width).to("simacc")
    with torch.simacc.record() as rec:
        for _ in range(steps):
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()
    return rec


def test_two_threads_training_different_models_record_their_own_operators():
    alone = {width: train(width, 20) for width in (16, 24)}
    together: dict[int, torch.simacc.Recording] = {}
    start = threading.Barrier(2)

    def work(width: int) -> None:
        start.wait()
        together[width] = train(width, 20)

    threads = [threading.Thread(target=work, args=(width,)) for width in (16, 24)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for width, rec in together.items():
        expected = alone[width].trace
        assert [op.signature for op in rec.trace.ops] == [op.signature for op in expected.ops]
        assert [op.phase for op in rec.trace.ops] == [op.phase for op in expected.ops]
        assert rec.run.makespan_ps == alone[width].run.makespan_ps
        assert get("h100").run(rec.trace) == rec.run


def test_a_thread_without_a_recording_adds_to_the_totals_only():
    x = torch.ones(8).to("simacc")
    with torch.simacc.record() as rec:
        worker = threading.Thread(target=lambda: x + x)
        worker.start()
        worker.join()
    assert "aten.add" not in [op.name for op in rec.trace.ops]


class Numbers(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 8

    def __getitem__(self, i: int) -> torch.Tensor:
        return torch.full((4,), float(i))


@pytest.mark.parametrize("workers", [0, 2])
def test_dataloader_workers_and_pinned_memory(workers):
    loader = torch.utils.data.DataLoader(Numbers(), batch_size=4, num_workers=workers, pin_memory=True)
    with torch.simacc.record() as rec:
        batches = list(loader)
        assert all(b.is_pinned() for b in batches)
        total = sum(b.to("simacc", non_blocking=True).sum() for b in batches)
        assert total.item() == 4 * sum(range(8))
    assert [op.name for op in rec.trace.ops].count("simacc.copy_to_device") == 2


def test_an_exception_in_a_backward_hook_keeps_recording_sound():
    x = torch.ones(4, 4, device="simacc", requires_grad=True)

    def fail(grad):
        raise ValueError("from the hook")

    with torch.simacc.record() as rec:
        y = (x * 2).relu()
        y.register_hook(fail)
        with pytest.raises(ValueError, match="from the hook"):
            y.sum().backward()
        x.detach() + 1
    assert rec.trace.ops[-2].name == "aten.add"
    assert rec.trace.ops[-2].phase == "forward"
    assert get("h100").run(rec.trace) == rec.run


def test_an_exception_in_the_block_closes_the_recording():
    x = torch.ones(4, device="simacc")
    with contextlib.suppress(KeyError), torch.simacc.record() as rec:
        x + x
        raise KeyError
    assert len(rec.trace) == 2  # the addition and the final synchronisation
    with torch.simacc.record() as after:
        x + x
    assert len(after.trace) == 2


def test_a_profiler_that_outlives_the_block_does_not_keep_the_recorder():
    x = torch.ones(4, device="simacc")
    profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
    with torch.simacc.record() as rec:
        profiler.start()
        x + x
    x + x  # below the profiler's state lies a closed recorder
    profiler.stop()
    assert [op.name for op in rec.trace.ops] == ["aten.add", "simacc.synchronize"]


def test_recorders_and_events_are_freed():
    x = torch.ones(4, device="simacc")

    def cycle() -> None:
        with torch.simacc.record(scopes=False):
            torch.simacc.Event(enable_timing=True).record()
            x + x

    for _ in range(2_000):
        cycle()
    gc.collect()
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(10_000):
        cycle()
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib
    # A leak of one row or one event per cycle alone would be hundreds of bytes: 10,000 x 400 B = 4 MB.
    assert grown_kib < 2_048


def test_a_program_that_never_asks_for_time_keeps_a_bounded_tape():
    x = torch.ones(670, device="simacc")
    start = torch.simacc.time_s()
    for _ in range(270_000):
        x.relu_()
    assert len(PROCESS.native.Recorder.root()) < 2**18
    # 670 x (4 + 4) bytes / 2.68e12 B/s = 2 ns each
    assert torch.simacc.time_s() - start == pytest.approx(270_000 * 2e-9, rel=1e-9)
