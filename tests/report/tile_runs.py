"""Small runs on the edge part, for the reports of tiles."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "devices"))

from published_traces import tiny_cnn

from simdevice.costs import Costs
from simdevice.devices import get
from simdevice.devices.accelerator import Accelerator
from simdevice.records import OpTable, Origin, Signature, TensorSpec, Trace, TraceBuilder

__all__ = ["ADD", "WORDS", "edge", "made", "tiny_cnn"]

WORDS = TensorSpec((12_800,), "float32")
ADD = Signature("aten.add", (WORDS, WORDS), (WORDS,))


def edge(**overrides: object) -> Accelerator:
    device = get("published/edge-npu", **overrides)  # type: ignore[arg-type]
    assert isinstance(device, Accelerator)
    return device


def made(*calls: tuple[Signature, tuple[int, ...]]) -> Trace:
    builder = TraceBuilder(OpTable(Costs()))
    for signature, ids in calls:
        builder.add(signature, ids)
    return builder.finish(Origin("hand", workload="by hand"))
