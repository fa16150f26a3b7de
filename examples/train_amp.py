"""Train a CNN on handwritten digits in mixed precision, save a checkpoint after each epoch, and go on from it.

Written for CUDA; only the device string is another: `DEVICE = "cuda"` became `DEVICE = "simacc"`.

    python train_amp.py --epochs 2 --checkpoint digits.pt     # and again with --epochs 4: it goes on with epoch 3
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

DEVICE = "simacc"


def digits() -> TensorDataset:
    data = load_digits()
    images = torch.tensor(data.images, dtype=torch.float32).unsqueeze(1) / 16
    return TensorDataset(images, torch.tensor(data.target))


def network() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Dropout(0.1), nn.Linear(32 * 2 * 2, 10)),
    )


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--epochs", type=int, default=2)
    arguments.add_argument("--checkpoint", type=Path, default=Path("digits.pt"))
    options = arguments.parse_args()

    torch.manual_seed(0)
    model = network().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, fused=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=8)
    scaler = torch.amp.GradScaler(DEVICE)
    start = 0

    if options.checkpoint.exists():
        saved = torch.load(options.checkpoint, map_location=DEVICE, weights_only=True)
        for part, state in zip((model, optimizer, schedule, scaler), saved["states"], strict=True):
            part.load_state_dict(state)
        torch.set_rng_state(saved["host_rng"].cpu())
        torch.get_device_module(DEVICE).set_rng_state(saved["device_rng"].cpu())
        start = saved["epoch"]
        print(f"going on after epoch {start}")

    for epoch in range(start, options.epochs):
        loader = DataLoader(digits(), batch_size=128, shuffle=True, pin_memory=True)
        total = 0.0
        model.train()
        for images, labels in loader:
            images, labels = images.to(DEVICE, non_blocking=True), labels.to(DEVICE, non_blocking=True)
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast(DEVICE, dtype=torch.float16):
                loss = nn.functional.cross_entropy(model(images), labels)
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            total += loss.item() * len(labels)
        schedule.step()
        print(f"epoch {epoch + 1}: loss {total / len(loader.dataset):.6f}, scale {scaler.get_scale():.0f}")
        states = [part.state_dict() for part in (model, optimizer, schedule, scaler)]
        rng = {"host_rng": torch.get_rng_state(), "device_rng": torch.get_device_module(DEVICE).get_rng_state()}
        torch.save({"epoch": epoch + 1, "states": states, **rng}, options.checkpoint)

    model.eval()
    with torch.inference_mode():
        images, labels = (tensor.to(DEVICE) for tensor in digits().tensors)
        correct = (model(images).argmax(1) == labels).sum().item()
    print(f"{correct} of {len(labels)} digits right")


if __name__ == "__main__":
    main()
