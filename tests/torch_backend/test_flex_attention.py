"""flex_attention: the CPU's operators uncompiled, and the CPU's kernel as one operator compiled."""

from __future__ import annotations

import pytest
import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

pytestmark = [
    # PyTorch's advice to compile
    pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # Inductor's, of its own imports
]
LENGTH = 128


def causal(batch, head, query, key):
    return query >= key


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
    torch.compiler.reset()


@pytest.fixture
def qkv():
    torch.manual_seed(0)
    return torch.randn(3, 1, 2, LENGTH, 16).unbind(0)


def on(device, tensors, bias, *, masked):
    """The arguments of flex_attention on a device."""
    there = bias.to(device)
    options = {"score_mod": lambda score, b, h, i, j: score + there[i] - there[j]}
    if masked:
        options["block_mask"] = create_block_mask(causal, 1, 1, LENGTH, LENGTH, device="cpu").to(device)
    return [t.to(device) for t in tensors], options


def test_block_masks_are_made_on_the_device_and_moved_to_it():
    made = create_block_mask(causal, 1, 1, 256, 256, device="simacc")
    moved = create_block_mask(causal, 1, 1, 256, 256, device="cpu").to("simacc")
    for mask in (made, moved):
        assert mask.kv_num_blocks.device == mask.kv_indices.device == torch.device("simacc", 0)
        assert mask.kv_num_blocks.tolist() == [[[1, 1]]]  # of 128: what is wholly before is full
        assert mask.full_kv_num_blocks.tolist() == [[[0, 1]]]


@pytest.mark.parametrize("masked", [False, True])
def test_uncompiled_it_is_the_cpus_operators(qkv, masked):
    results = []
    for device in ("cpu", "simacc"):
        tensors, options = on(device, qkv, torch.linspace(0, 1, LENGTH), masked=masked)
        results.append(flex_attention(*tensors, **options))
    assert torch.equal(results[0], results[1].cpu())


def test_gradients_are_refused_as_on_the_cpu(qkv):
    q, k, v = (t.to("simacc").requires_grad_() for t in qkv)
    with pytest.raises(
        NotImplementedError, match=r"^flex_attention on simacc is the CPU's kernel, which has no backward"
    ):
        flex_attention(q, k, v)


@pytest.mark.slow
@pytest.mark.parametrize("masked", [False, True])
def test_compiled_it_is_one_operator_with_the_bits_of_the_cpus_kernel(qkv, masked):
    bias = torch.linspace(0, 1, LENGTH)
    with torch.no_grad():
        tensors, options = on("cpu", qkv, bias, masked=masked)
        expected = torch.compile(flex_attention)(*tensors, **options)
    with torch.set_grad_enabled(masked):  # in either mode
        tensors, options = on("simacc", qkv, bias, masked=masked)
        compiled = torch.compile(flex_attention, backend="simacc")
        compiled(*tensors, **options)
        with torch.simacc.record() as rec:
            result = compiled(*tensors, **options)
    assert torch.equal(expected, result.cpu())
    assert expected.stride() == result.stride()
    (row,) = [op for op in rec.trace.ops if op.name == "simacc.flex_attention"]
    # two products of 2 heads x 128 x 128 x 16, and a softmax of 5 per score
    assert row.flops == 2 * (2 * 2 * LENGTH * LENGTH * 16) + 5 * 2 * LENGTH * LENGTH
    assert not rec.trace.unknown()
    assert "aten.bmm" not in [op.name for op in rec.trace.ops]
