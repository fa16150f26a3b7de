"""Switches of named models: the key-value cache and the kind of attention, in GPT-2's figures and in words."""

from __future__ import annotations

import pytest
import torch

import simdevice as sd
from simdevice.errors import SpecError

WIDE, LAYERS, HEADS, VOCABULARY, TOKENS = 768, 12, 12, 50_257, 64
# per layer: query, key and value 3d^2, output d^2, up and down 4d^2 each; the tied head; a bias per output of each
LINEAR = 2 * TOKENS * (LAYERS * 12 * WIDE**2 + VOCABULARY * WIDE) + TOKENS * LAYERS * 9 * WIDE
# two products of 2 x 64 x 64 x 768 in each layer
PRODUCTS = LAYERS * 2 * 2 * TOKENS**2 * WIDE
# 4 x 64 per score in the products, and 5 for its softmax
FUSED = LAYERS * HEADS * TOKENS**2 * (4 * WIDE // HEADS + 5)

IN_PRODUCTS = "attention as matrix products and softmax"
IN_ONE = "fused attention (aten._scaled_dot_product_flash_attention_for_cpu)"


@pytest.mark.parametrize(
    ("attention", "cache", "path"),
    [
        (None, None, f"key-value cache on, {IN_PRODUCTS}, explicit mask"),
        ("math", True, f"key-value cache on, {IN_PRODUCTS}, explicit mask"),
        ("math", False, f"key-value cache off, {IN_PRODUCTS}, explicit mask"),
        (None, False, f"key-value cache off, {IN_PRODUCTS}, explicit mask"),
        ("fused", True, f"key-value cache on, {IN_ONE}"),
        # with the cache off transformers looks for packed sequences, can't see them without data, and makes the mask
        ("fused", False, f"key-value cache off, {IN_ONE}, explicit mask"),
    ],
)
def test_both_paths_of_transformers_with_and_without_cache(
    attention: str | None, cache: bool | None, path: str
) -> None:
    trace = sd.trace("gpt2", tokens=TOKENS, attention=attention, cache=cache, scopes=False)
    assert trace.origin.path == path
    assert trace.matmul_flops == LINEAR + (PRODUCTS if attention != "fused" else 0)
    assert trace.flops_in("attention") == (FUSED if attention == "fused" else 0)
    appended = [op for op in trace.ops if op.name == "aten.cat" and len(op.outputs[0].shape) == 4]
    # keys and values of each layer are appended to a cache that is empty
    assert len(appended) == (0 if cache is False else 2 * LAYERS)


def test_a_function_on_real_tensors_takes_either_attention() -> None:
    def attend(q: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.scaled_dot_product_attention(q, q, q)

    q = torch.zeros(1, 2, 8, 16)
    fused, math = (sd.trace(attend, q, attention=kind) for kind in ("fused", "math"))
    assert (fused.origin.path, math.origin.path) == (IN_ONE, IN_PRODUCTS)
    # 2 heads x 8 x 8 scores, 4 x 16 + 5 FLOPs each; and 2 products of 2 x 8 x 8 x 16 multiply-adds
    assert (fused.flops_in("attention"), math.matmul_flops) == (2 * 64 * 69, 2 * 2 * 2 * 64 * 16)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"decode": 8, "cache": False}, "a decode step reads its key-value cache: it can't be off"),
        ({"cache": True, "frontend": "export"}, "the 'export' front end switches the key-value cache off, .*"),
        ({"cache": True, "frontend": "onnx"}, "the 'onnx' front end switches the key-value cache off, .*"),
        ({"cache": True, "frontend": "compile"}, "the 'compile' front end switches the key-value cache off, .*"),
    ],
)
def test_switches_that_cannot_be_are_one_line(options: dict[str, object], message: str) -> None:
    with pytest.raises(SpecError, match=f"^{message}$"):
        sd.trace("gpt2", **options)


def test_a_model_without_a_cache_has_no_switch() -> None:
    with pytest.raises(SpecError, match=r"^tiny-cnn has no key-value cache to switch on or off$"):
        sd.trace("tiny-cnn", cache=False)


def test_a_trace_that_branched_on_data_says_so() -> None:
    def branches(x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            x = x[x > 0]
        return x * x.max().item()

    (note,) = sd.trace(branches, torch.ones(4)).origin.notes
    # bool() of a sum and one item(); one index by a mask
    assert note == (
        "the program read computed numbers (aten._local_scalar_dense x 2) and has sizes that follow from data "
        "(aten.index x 1): with other data it may run other operators"
    )
    assert sd.trace(torch.neg, torch.ones(4)).origin.notes == ()


def test_flop_counter_is_refused_where_pytorch_runs_nothing() -> None:
    with pytest.raises(SpecError, match=r"^flop_counter is PyTorch's own count, and PyTorch doesn't run an ONNX file$"):
        sd.trace("m.onnx", flop_counter=True)
