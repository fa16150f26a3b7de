"""Capturing a weightless model, all costs filled, against the plain meta forward of the same model."""

from __future__ import annotations

import torch

import simdevice as sd
from benchmarks._timing import interleaved_medians, show


def main() -> None:
    rows = [row for name in ("llama3-8b", "llama3-70b", "gpt2") for row in capture(name)]
    header = ("2,048-token prefill", "plain forward", "capture", "ratio", "target")
    show("capture / plain meta forward (interleaved medians)", header, rows)


def capture(name: str) -> list[tuple[str, ...]]:
    model, ids = sd.models.build(name), sd.models.tokens(1, 2048)

    def plain() -> None:
        with torch.no_grad():
            model(ids)

    def off() -> None:
        sd.trace(model, ids, scopes=False)

    def on() -> None:
        sd.trace(model, ids)

    forward, without, with_ = interleaved_medians([plain, off, on], rounds=7)
    return [
        (f"{name}, scopes {scopes}", f"{forward * 1e3:.0f} ms", f"{took * 1e3:.0f} ms", f"{took / forward:.2f}", target)
        for scopes, took, target in (("off", without, "1.5"), ("on", with_, ""))
    ]
