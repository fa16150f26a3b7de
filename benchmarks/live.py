"""The live device against the plain CPU, recording on: BERT forward and training, a chat, and one small operator."""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
import transformers
from torch import nn

from benchmarks._timing import interleaved_medians, show

TARGETS = {"8 x 64": 1.05, "1 x 1, scopes off": 1.12, "1 x 1, scopes on": 1.35}
TRAINING_TARGET = 1.05
GENERATE_TARGET = 1.12


def main() -> None:
    torch.set_num_threads(2)
    rows = [*bert(), training_step(), generate(), small_operator()]
    show("live device / CPU, wall time (interleaved medians)", ("program", "CPU", "simacc", "ratio", "target"), rows)


def bert() -> list[tuple[str, ...]]:
    torch.manual_seed(0)
    config = transformers.BertConfig(
        hidden_size=384, num_hidden_layers=6, num_attention_heads=6, intermediate_size=1536
    )
    cpu = transformers.BertModel(config).eval()
    sim = copy.deepcopy(cpu).to("simacc")
    rows = []
    with torch.no_grad():
        for name, shape, scopes, rounds in (
            ("8 x 64", (8, 64), False, 40),
            ("1 x 1, scopes off", (1, 1), False, 60),
            ("1 x 1, scopes on", (1, 1), True, 60),
        ):
            ids = torch.randint(0, config.vocab_size, shape)
            host, device = compare(cpu, sim, ids, scopes=scopes, rounds=rounds)
            ratio = f"{device / host:.3f}"
            rows.append((f"BERT {name}", f"{host * 1e3:.3f} ms", f"{device * 1e3:.3f} ms", ratio, f"{TARGETS[name]}"))
    return rows


def compare(cpu: nn.Module, sim: nn.Module, ids: torch.Tensor, *, scopes: bool, rounds: int) -> list[float]:
    """Seconds per forward on the CPU and on simacc. Recording is always on; module hooks are global, so
    with scopes the CPU model is timed outside of the recording that installs them."""
    on_sim = ids.to("simacc")
    assert torch.equal(cpu(ids).last_hidden_state, sim(on_sim).last_hidden_state.cpu())
    recording = (lambda: torch.simacc.record(scopes=True)) if scopes else nullcontext
    calls = 1 if ids.numel() > 1 else 10
    return interleaved_medians([lambda: cpu(ids), lambda: sim(on_sim)], rounds, calls, [nullcontext, recording])


def training_step() -> tuple[str, ...]:
    """Forward, backward and AdamW of a BERT that classifies, 8 sequences of 64 tokens. Both train on the same batch."""
    torch.manual_seed(0)
    config = transformers.BertConfig(
        hidden_size=384, num_hidden_layers=6, num_attention_heads=6, intermediate_size=1536
    )
    cpu = transformers.BertForSequenceClassification(config).train()
    ids, labels = torch.randint(0, config.vocab_size, (8, 64)), torch.randint(0, 2, (8,))
    steps = [
        training(cpu, ids, labels),
        training(copy.deepcopy(cpu).to("simacc"), ids.to("simacc"), labels.to("simacc")),
    ]
    host, device = interleaved_medians(steps, rounds=12)
    return row("BERT training step, 8 x 64, AdamW", host, device, TRAINING_TARGET)


def training(model: nn.Module, ids: torch.Tensor, labels: torch.Tensor) -> Callable[[], None]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)

    def step() -> None:
        optimizer.zero_grad()
        model(ids, labels=labels).loss.backward()
        optimizer.step()

    return step


def generate() -> tuple[str, ...]:
    """32 tokens of a small Llama after a prompt of 16, greedily, with the key-value cache that `generate` makes."""
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=8192,
        hidden_size=384,
        num_hidden_layers=6,
        num_attention_heads=6,
        intermediate_size=1024,
        max_position_embeddings=256,
        eos_token_id=None,
        pad_token_id=0,
    )
    cpu = transformers.LlamaForCausalLM(config).eval()
    sim = copy.deepcopy(cpu).to("simacc")
    prompt = torch.randint(0, config.vocab_size, (1, 16))
    on_sim = prompt.to("simacc")

    def chat(model: Any, prompt: torch.Tensor) -> torch.Tensor:
        answer: torch.Tensor = model.generate(prompt, max_new_tokens=32, do_sample=False)
        return answer

    assert torch.equal(chat(cpu, prompt), chat(sim, on_sim).cpu())
    host, device = interleaved_medians([lambda: chat(cpu, prompt), lambda: chat(sim, on_sim)], rounds=12)
    return row("Llama generate, 32 tokens, scopes off", host, device, GENERATE_TARGET)


def row(program: str, host: float, device: float, target: float) -> tuple[str, ...]:
    return program, f"{host * 1e3:.1f} ms", f"{device * 1e3:.1f} ms", f"{device / host:.3f}", f"{target}"


def small_operator() -> tuple[str, ...]:
    x, y = torch.randn(16), torch.randn(16)
    a, b = x.to("simacc"), y.to("simacc")
    host, device = interleaved_medians([lambda: x + y, lambda: a + b], rounds=300, calls=500)
    return (
        "x + y, 16 floats",
        f"{host * 1e6:.2f} us",
        f"{device * 1e6:.2f} us",
        f"+{(device - host) * 1e6:.2f} us",
        "+0.8 us",
    )
