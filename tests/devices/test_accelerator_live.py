"""PyTorch live on the tile model: recordings equal offline runs, events and reads have their times."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import nn

import simdevice as sd
from simdevice.torch_backend.machine import current_device


@pytest.fixture(params=["native", "python"])
def edge(request: pytest.FixtureRequest) -> Iterator[str]:
    torch.simacc.configure("edge-npu", engine=request.param)
    yield request.param
    torch.simacc.configure("h100")


class DigitsCnn(nn.Module):
    """The quickstart's network."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(1, 32, 3, padding=1), nn.BatchNorm2d(32)
        self.conv2, self.norm2 = nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64)
        self.pool = nn.MaxPool2d(2)
        self.classify = nn.Linear(64 * 2 * 2, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.pool(self.norm1(self.conv1(images)).relu())
        x = self.pool(self.norm2(self.conv2(x)).relu())
        return self.classify(x.flatten(1))


def digits(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    data = pytest.importorskip(
        "sklearn.datasets", reason="scikit-learn (the 'examples' extra) is not installed"
    ).load_digits()
    images = torch.tensor(data.images[:count], dtype=torch.float32).unsqueeze(1) / 16
    return images, torch.tensor(data.target[:count])


def test_evaluating_the_digits_cnn_is_recorded_exactly(edge: str) -> None:
    images, _ = digits(160)
    model = DigitsCnn().eval()
    with torch.no_grad():
        expected = torch.cat([model(batch) for batch in images.split(64)])
        model.to("simacc")
        with torch.simacc.record() as rec:
            logits = torch.cat([model(batch.to("simacc")).cpu() for batch in images.split(64)])
    assert torch.equal(logits, expected)
    assert current_device().run(rec.trace) == rec.run
    assert sum(rec.run.stalls.values()) == rec.run.makespan_ps
    assert rec.run.tiles > 30


def test_training_the_digits_cnn_is_recorded_exactly(edge: str) -> None:
    images, labels = digits(128)
    model = DigitsCnn().to("simacc")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    with torch.simacc.record() as rec:
        for start in (0, 64):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(
                model(images[start : start + 64].to("simacc")), labels[start : start + 64].to("simacc")
            )
            loss.backward()
            optimizer.step()
            loss.item()
    assert current_device().run(rec.trace) == rec.run
    assert {op.phase for op in rec.trace.ops} == {"forward", "backward", "optimizer"}


def test_any_engine_replays_a_recording() -> None:
    torch.simacc.configure("edge-npu")
    try:
        a = torch.randn(300, 300).to("simacc")
        with torch.simacc.record() as rec:
            event = torch.Event("simacc", enable_timing=True)
            b = a @ a
            event.record()
            (b + a).sum().item()
            event.wait()
            torch.mm(b, a)
    finally:
        torch.simacc.configure("h100")
    runs = [sd.device("edge-npu", engine=engine).run(rec.trace) for engine in ("native", "python", "simpy")]
    assert rec.run == runs[0] == runs[1] == runs[2]


def test_the_time_between_events_is_that_of_the_completion_frontiers() -> None:
    # edge-npu, a vector of 12,800 floats plus itself: loads 102,400 B (8.12 us), computes 0.2 us, stores
    # 51,200 B (4.12 us). The second addition loads across the first event: its store ends 8.12 us later.
    torch.simacc.configure("edge-npu")
    try:
        x, y = torch.ones(12_800).to("simacc"), torch.ones(12_800).to("simacc")
        torch.simacc.synchronize()
        first, second = (torch.Event("simacc", enable_timing=True) for _ in range(2))
        with torch.simacc.record() as rec:
            x + y
            first.record()
            x + y
            second.record()
        assert first.elapsed_time(second) == pytest.approx(8.12e-3, rel=1e-12)  # milliseconds
        assert rec.run.makespan_ps == 8_120_000 + 12_440_000
    finally:
        torch.simacc.configure("h100")


def test_time_passes_outside_of_a_recording_too() -> None:
    torch.simacc.configure("edge-npu")
    try:
        x = torch.ones(64).to("simacc")
        for _ in range(1000):
            x = x + x
        torch.simacc.synchronize()
        assert torch.simacc.time_s() > 0
    finally:
        torch.simacc.configure("h100")
