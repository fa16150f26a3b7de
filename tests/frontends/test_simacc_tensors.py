"""The dispatch front end over simacc tensors, beside the same program on the CPU and the device's own recorder."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

import simdevice as sd
from simdevice.records import Trace

simacc: Any = getattr(torch, "simacc", None)
pytestmark = pytest.mark.skipif(simacc is None, reason="the simacc device is not built: make test builds it")


def bert() -> nn.Module:
    size = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
    return sd.models.build(model_type="bert", **size, vocab_size=256, tie_word_embeddings=False, device="cpu")


def llama() -> nn.Module:
    size = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
    tokens = {"vocab_size": 256, "bos_token_id": 0, "eos_token_id": 1}
    return sd.models.build(model_type="llama", num_key_value_heads=2, **size, **tokens, device="cpu")


PROGRAMS: dict[str, tuple[Any, torch.Tensor]] = {
    "cnn": (
        lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()).eval(),
        torch.ones(2, 3, 8, 8),
    ),
    "norms": (lambda: nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.GELU(), nn.Softmax(-1)), torch.ones(2, 4)),
    "bert": (bert, torch.zeros(2, 16, dtype=torch.int64)),
    "llama": (llama, torch.zeros(2, 16, dtype=torch.int64)),
}


def calls(trace: Trace) -> list[tuple[Any, ...]]:
    return [(op.signature, op.phase, op.scope) for op in trace.ops]


@pytest.mark.parametrize("name", PROGRAMS)
def test_simacc_tensors_show_the_operators_of_cpu_tensors(name: str) -> None:
    build, inputs = PROGRAMS[name]
    torch.manual_seed(0)
    model = build()
    on_cpu = sd.trace(model, inputs)
    on_simacc = sd.trace(copy.deepcopy(model).to("simacc"), inputs.to("simacc"))
    assert calls(on_simacc) == calls(on_cpu)
    assert on_simacc.rows == on_cpu.rows
    assert on_simacc.origin.device == "simacc"


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_live_recorder_sees_what_the_front_end_sees(name: str) -> None:
    build, inputs = PROGRAMS[name]
    model, on_device = build().to("simacc"), inputs.to("simacc")
    traced = sd.trace(model, on_device).without_views()
    with simacc.record() as recorded, torch.no_grad():
        model(on_device)
    live = [call for call in calls(recorded.trace.without_views()) if call[0].name.startswith("aten.")]
    assert live == calls(traced)
