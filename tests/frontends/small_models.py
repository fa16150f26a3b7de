"""Small models with their inputs, one of each kind, that every front end must agree on."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

import simdevice as sd
from simdevice.frontends import Workload
from simdevice.records import Trace

TRANSFORMERS: dict[str, dict[str, Any]] = {
    "llama": {
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": 256,
        "bos_token_id": 1,
        "eos_token_id": 2,
    },
    "gpt2": {
        "n_embd": 64,
        "n_layer": 2,
        "n_head": 4,
        "vocab_size": 256,
        "n_positions": 64,
        "bos_token_id": 1,
        "eos_token_id": 2,
    },
    "bert": {
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 128,
        "vocab_size": 256,
    },
    "vit": {
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 128,
        "image_size": 32,
        "patch_size": 8,
    },
}

NAMES = ("llama", "gpt2", "bert", "vit", "cnn")

SCORES = {"llama": 2 * 4 * 12 * 12, "gpt2": 2 * 4 * 12 * 12, "bert": 2 * 4 * 12 * 12, "vit": 2 * 4 * 17 * 17, "cnn": 0}
"""Attention scores: layers x heads x length^2, with 12 tokens, or 4 x 4 patches and a class token."""


def small(name: str, device: str) -> Workload:
    """One forward pass: 12 tokens, or a 32 x 32 picture."""
    torch.manual_seed(0)
    if name == "cnn":
        return sd.models.prefill(sd.models.build("tiny-cnn", device=device), 1)
    return sd.models.prefill(sd.models.build(model_type=name, device=device, **TRANSFORMERS[name]), 12)


def lstm(device: str) -> Workload:
    """Two layers of 32 units over 3 sequences of 5 steps of 16 features."""
    torch.manual_seed(0)
    with torch.device(device):
        return Workload(nn.LSTM(16, 32, 2, batch_first=True).eval(), (torch.zeros(3, 5, 16),))


def arithmetic(trace: Trace, scores: int) -> tuple[int, int]:
    """FLOPs of products and convolutions, those inside fused attention included, and weight bytes.

    Fused attention counts 5 per score for its softmax, which is no product.
    """
    attention = trace.flops_in("attention")
    products = trace.flops_in("matmul", "convolution") + (attention - 5 * scores if attention else 0)
    return products, trace.weight_bytes
