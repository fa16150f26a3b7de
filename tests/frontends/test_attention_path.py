"""What a trace's path says of attention: only what ran, by which operator, masked or not, with keys repeated or not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from onnx_models import save
from small_models import small
from torch import nn

import simdevice as sd
from simdevice.frontends import Workload

F = nn.functional
HEADS = (2, 4, 5, 8)
"""batch, heads, length, width."""


def path(function: Any, *shapes: tuple[int, ...], frontend: str = "dispatch", device: str = "meta") -> str:
    return sd.trace(function, *(torch.zeros(s, device=device) for s in shapes), frontend=frontend).origin.path


def products(q: Any, k: Any, v: Any) -> Any:
    return torch.softmax(q @ k.transpose(-1, -2) / 3, -1) @ v


PRODUCTS = "attention as matrix products and softmax"


def test_products_around_a_softmax_are_attention() -> None:
    assert path(products, HEADS, HEADS, HEADS) == PRODUCTS


def test_a_softmax_of_a_classifier_is_none() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 3), nn.Softmax(-1))
    assert path(model.to("meta"), (2, 8)) == ""


def test_a_softmax_whose_result_meets_no_product_is_none() -> None:
    assert path(lambda q, k: torch.softmax(q @ k.transpose(-1, -2), -1), HEADS, HEADS) == ""


def test_products_in_a_row_beside_a_softmax_are_none() -> None:
    assert path(lambda q, k, v: (q @ k.transpose(-1, -2) @ v, torch.softmax(q, -1)), HEADS, HEADS, HEADS) == ""


def test_a_gate_over_experts_is_none() -> None:
    # probabilities of a weighted product, multiplied with a tensor: no scores went in
    class Gate(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.route = nn.Linear(8, 4, device="meta")

        def forward(self, x: torch.Tensor, experts: torch.Tensor) -> torch.Tensor:
            return torch.softmax(self.route(x), -1) @ experts

    assert path(Gate(), (2, 8), (4, 8)) == ""


@pytest.mark.parametrize("frontend", ["dispatch", "export"])
def test_a_branch_that_is_not_taken_names_nothing(frontend: str) -> None:
    def program(x: Any, q: Any) -> Any:
        cheap = torch.cond if frontend == "export" else None
        if cheap is None:
            return x @ x
        return torch.cond(x.sum() > 0, lambda a, b: products(b, b, b).sum() + a, lambda a, b: a @ a @ a, (x, q))

    # (64, 64) squared twice outweighs attention over 5 positions
    assert path(program, (64, 64), (1, 1, 5, 8), frontend=frontend, device="cpu") == ""


def test_an_onnx_branch_that_is_not_taken_names_nothing(tmp_path: Path) -> None:
    text = """g (float[1, 1, 4, 4] x, bool c) => (float[1, 1, 4, 4] y)
        { y = If(c) <then_branch = t () => (float[1, 1, 4, 4] a) { a = Attention(x, x, x) },
                     else_branch = e () => (float[1, 1, 4, 4] b) { b = Relu(x) }> }"""
    said = {c: sd.trace(save(tmp_path, text, opset=23), inputs={"c": np.array(c)}).origin.path for c in (True, False)}
    assert said == {True: "fused attention (onnx.Attention)", False: ""}


@pytest.mark.parametrize(
    ("mask", "expected"),
    [
        (lambda s, m: s + m, f"{PRODUCTS}, explicit mask"),
        (lambda s, m: s.masked_fill(m > 0, -1.0), f"{PRODUCTS}, explicit mask"),
        (lambda s, m: torch.where(m > 0, s, -1.0), f"{PRODUCTS}, explicit mask"),
        (lambda s, m: s + 1, PRODUCTS),
        (lambda s, m: s / m.sum(), PRODUCTS),
    ],
)
def test_a_mask_on_scores_is_named(mask: Any, expected: str) -> None:
    def masked(q: Any, k: Any, v: Any, m: Any) -> Any:
        return torch.softmax(mask(q @ k.transpose(-1, -2), m), -1) @ v

    assert path(masked, HEADS, HEADS, HEADS, (5, 5)) == expected


def test_a_mask_repeated_over_heads_is_no_repeated_key() -> None:
    def masked(q: Any, k: Any, v: Any, m: Any) -> Any:
        return torch.softmax(q @ k.transpose(-1, -2) + m.expand(2, 4, 5, 5), -1) @ v

    assert path(masked, HEADS, HEADS, HEADS, (1, 1, 5, 5)) == f"{PRODUCTS}, explicit mask"


def repeated(tensor: Any, times: int) -> Any:
    """As transformers does it: (batch, kv heads, length, width) to (batch, kv heads * times, length, width)."""
    batch, heads, length, width = tensor.shape
    wide = tensor[:, :, None].expand(batch, heads, times, length, width)
    return wide.reshape(batch, heads * times, length, width)


@pytest.mark.parametrize("frontend", ["dispatch", "export", "compile"])
@pytest.mark.parametrize("times", [1, 2])
def test_repeated_keys_are_named(times: int, frontend: str) -> None:
    def grouped(q: Any, k: Any, v: Any) -> Any:
        return products(q, repeated(k, times), repeated(v, times))

    kv = (2, 4 // times, 5, 8)
    assert path(grouped, HEADS, kv, kv, frontend=frontend) == PRODUCTS + ", repeated keys" * (times > 1)


@pytest.mark.parametrize(
    ("options", "kv_heads", "words"),
    [
        ({"is_causal": True}, 4, ""),
        ({"enable_gqa": True}, 2, ""),
        ({"attn_mask": torch.zeros(5, 5)}, 4, ", explicit mask"),
    ],
)
def test_of_a_fused_operator_too(options: dict[str, Any], kv_heads: int, words: str) -> None:
    kv = (2, kv_heads, 5, 8)
    said = path(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, **options), HEADS, kv, kv, device="cpu")
    assert said.startswith("fused attention (aten._scaled_dot_product_flash_attention_for_cpu)") or kv_heads == 2
    assert said.partition(")")[2] == words or "matrix products" in said


def test_repeated_keys_of_a_fused_operator() -> None:
    def grouped(q: Any, k: Any, v: Any) -> Any:
        return F.scaled_dot_product_attention(q, repeated(k, 2), repeated(v, 2))

    kv = (2, 2, 5, 8)
    said = path(grouped, HEADS, kv, kv, device="cpu")
    assert said == "fused attention (aten._scaled_dot_product_flash_attention_for_cpu), repeated keys"


def test_a_contributed_operator_names_its_mask(tmp_path: Path) -> None:
    text = """g (float[1, 4, 8] x, float[1, 2, 4, 4] m) => (float[1, 4, 8] y)
        { y = com.microsoft.MultiHeadAttention<num_heads = 2>(x, x, x{mask}) }"""
    said = [sd.trace(save(tmp_path, text.replace("{mask}", m))).origin.path for m in ("", ", , , m")]
    fused = "fused attention (com.microsoft.MultiHeadAttention)"
    assert said == [fused, f"{fused}, explicit mask"]


# The cache


@pytest.mark.parametrize("frontend", ["dispatch", "export", "onnx"])
def test_a_cache_that_is_off_is_said(frontend: str) -> None:
    workload = small("llama", "cpu")
    off = Workload(workload.program, workload.args, {**workload.kwargs, "use_cache": False}, path="my way")
    said = sd.trace(off, frontend=frontend).origin.path
    assert said.startswith("key-value cache off, my way")
    assert said.count("key-value cache") == 1


def test_what_has_no_cache_says_nothing_of_it() -> None:
    assert "cache" not in sd.trace(small("cnn", "cpu")).origin.path
    assert "cache" not in sd.trace(lambda use_cache: use_cache + 1, torch.zeros(2)).origin.path
