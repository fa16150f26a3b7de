"""Train a small CNN on real handwritten digits, move it to the simulated device with one line, and see
the same logits together with the time the simulated machine would take."""

from __future__ import annotations

import time

import torch
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_digits
from torch import nn

from simdevice import Run, report
from simdevice.units import format_bytes, format_seconds

DEVICE = "h100"
BATCH = 64
console = Console()


def digits() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """The 1,797 8 x 8 images that scikit-learn ships: four fifths to train on, one fifth held out."""
    data = load_digits()
    images = torch.tensor(data.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(data.target)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    split = len(order) * 4 // 5
    train, test = order[:split], order[split:]
    return images[train], labels[train], images[test], labels[test]


class DigitsCnn(nn.Module):
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


def train(model: nn.Module, images: torch.Tensor, labels: torch.Tensor, epochs: int = 5) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(epochs):
        for batch in torch.randperm(len(labels)).split(BATCH):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images[batch]), labels[batch]).backward()
            optimizer.step()


@torch.no_grad()
def evaluate(model: nn.Module, images: torch.Tensor, device: str) -> torch.Tensor:
    """Logits of all images, batch by batch, each batch moved to the device and its logits back."""
    return torch.cat([model(batch.to(device)).cpu() for batch in images.split(BATCH)])


def accuracy(logits: torch.Tensor, labels: torch.Tensor) -> float:
    return (logits.argmax(1) == labels).float().mean().item()


def main() -> None:
    torch.manual_seed(0)
    images, labels, test_images, test_labels = digits()
    model = DigitsCnn()
    started = time.perf_counter()
    train(model, images, labels)
    console.print(f"Trained on {len(labels):,} digits on the CPU in {time.perf_counter() - started:.1f} s.")
    model.eval()
    on_cpu = evaluate(model, test_images, "cpu")

    torch.simacc.configure(device=DEVICE)
    model.to("simacc")  # the one line
    with torch.simacc.record() as rec:
        on_simacc = evaluate(model, test_images, "simacc")
    run = rec.run

    batches = len(test_images.split(BATCH))
    answer = Table.grid(padding=(0, 2))
    answer.add_row("accuracy on the CPU", f"{accuracy(on_cpu, test_labels):.2%}")
    answer.add_row("accuracy on simacc", f"{accuracy(on_simacc, test_labels):.2%}")
    answer.add_row("logits", "bit-equal" if torch.equal(on_cpu, on_simacc) else "DIFFERENT")
    answer.add_row("simulated time per batch", f"{format_seconds(run.time_s / batches)} ({BATCH} images)")
    answer.add_row("simulated time per image", format_seconds(run.time_s / len(test_images)))
    for copies in report.transfers(run):
        moved = f"{format_bytes(copies.moved_bytes)} in {copies.copies} copies"
        answer.add_row(f"link, {copies.direction}", f"{format_seconds(copies.time_s)} for {moved}")
    console.print(f"\n[bold]{len(test_images)} held-out digits on {run.device}[/bold]")
    console.print(answer)
    for rows, title in (
        (report.by_category(run), "By category"),
        (report.by_module(run, 2), "By module"),
        (report.top_operators(run, 5), "Top operators"),
    ):
        console.print(report.to_rich(rows, title))

    console.print("\n[bold]One training step on simacc[/bold]")
    console.print(report.to_rich(report.by_phase(training_step(model, images[:BATCH], labels[:BATCH])), "By phase"))


def training_step(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> Run:
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    images, labels = images.to("simacc"), labels.to("simacc")
    with torch.simacc.record() as rec:
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
    return rec.run


if __name__ == "__main__":
    main()
