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


def test_a_mixture_of_experts_routes_on_the_device_as_on_the_cpu() -> None:
    size = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    experts = {"num_local_experts": 4, "num_experts_per_tok": 2, "num_key_value_heads": 2, "vocab_size": 64}
    torch.manual_seed(0)
    model = sd.models.build(model_type="mixtral", **size, **experts, device="cpu")
    ids = torch.randint(0, 64, (2, 5), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = model(ids).logits
        model.to("simacc")
        with simacc.record() as recorded:
            logits = model(ids.to("simacc")).logits
    assert torch.equal(logits.cpu(), expected)
    # 10 tokens x 2 experts; gate and up in one product of 32 x 128, then 64 x 32 back; 2 layers
    grouped = [op.flops for op in recorded.trace.ops if op.name == "aten._grouped_mm"]
    assert grouped == [2 * 20 * 32 * 128, 2 * 20 * 64 * 32] * 2
    assert recorded.trace.unknown() == {}
