"""Strided nested tensors: the CPU's kernels, and rows that show the padded tensor they fit into."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import simdevice as sd
from simdevice.errors import CaptureError

pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors is in prototype stage")


@pytest.fixture
def parts():
    torch.manual_seed(0)
    return [torch.randn(2, 3), torch.randn(4, 3), torch.randn(1, 3)]


@pytest.fixture
def encoder():
    torch.manual_seed(0)
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2).eval()


@pytest.fixture
def padded():
    """Five places, of which the three sequences fill 3, 5 and 2; True is padding."""
    return torch.randn(3, 5, 16), torch.arange(5).expand(3, 5) >= torch.tensor([[3], [5], [2]])


def test_a_padded_transformer_encoder_in_evaluation(encoder, padded):
    x, mask = padded
    with torch.no_grad():
        expected = encoder(x, src_key_padding_mask=mask)
        with torch.simacc.record() as rec:
            y = encoder.to("simacc")(x.to("simacc"), src_key_padding_mask=mask.to("simacc"))
    assert torch.equal(y.cpu(), expected)
    layers = [op for op in rec.trace.ops if op.name == "aten._transformer_encoder_layer_fwd"]
    assert [op.inputs[0].shape for op in layers] == [(3, 5, 16)] * 2


OPERATORS = {
    "to_padded_tensor": lambda t: t.to_padded_tensor(7.0),
    "unbind": lambda t: t.unbind(),
    "add": lambda t: t + t,
    "mul scalar": lambda t: t * 2,
    "linear": lambda t: nn.functional.linear(t, torch.ones(4, 3, device=t.device)),
    "matmul": lambda t: t @ t.transpose(1, 2),
    "softmax": lambda t: t.softmax(-1),
    "layer_norm": lambda t: nn.LayerNorm(3, device=t.device)(t).detach(),
    "gelu": lambda t: nn.functional.gelu(t),
    "relu_": lambda t: t.relu_(),
    "fill_": lambda t: t.fill_(2),
    "clone": lambda t: t.clone(),
    "transpose": lambda t: t.transpose(1, 2),
    "select": lambda t: t[1],
    "sum": lambda t: t.sum(-1, keepdim=True),
    "half": lambda t: t.half(),
    "size": lambda t: (t.size(0), t.size(2), t.is_contiguous(), t.numel()),
}


@pytest.mark.parametrize("what", OPERATORS)
def test_operators(parts, what):
    run = OPERATORS[what]
    expected = run(torch.nested.nested_tensor(parts))
    actual = run(torch.nested.nested_tensor(parts, device="simacc"))
    moved = run(torch.nested.nested_tensor(parts).to("simacc"))
    for result in (actual, moved):
        flat = [r.unbind() if isinstance(r, torch.Tensor) and r.is_nested else r for r in (expected, result)]
        for a, b in zip(*([f] if isinstance(f, torch.Tensor) else f for f in flat), strict=True):
            if isinstance(a, torch.Tensor):
                assert b.device.type == "simacc"
                assert torch.equal(a, b.cpu())
            else:
                assert a == b


def test_gradients_and_memory(parts):
    leaves = [p.to("simacc").requires_grad_() for p in parts]
    nested = torch.nested.as_nested_tensor(leaves)
    nested.to_padded_tensor(0.0).square().sum().backward()
    for leaf in leaves:
        assert torch.equal(leaf.grad.cpu(), 2 * leaf.detach().cpu())
    before = torch.simacc.memory_allocated()
    more = torch.nested.nested_tensor(parts, device="simacc")
    assert torch.simacc.memory_allocated() - before == 7 * 3 * 4  # 2 + 4 + 1 rows of three floats
    del more
    assert torch.simacc.memory_allocated() == before


def test_views_share_memory(parts):
    nested = torch.nested.nested_tensor(parts, device="simacc")
    nested.unbind()[1].zero_()
    assert nested.to_padded_tensor(9.0)[1].tolist() == [[0.0] * 3] * 4


def test_jagged_nested_tensors(parts):
    def run(device):
        module = nn.Linear(3, 4)
        with torch.no_grad():
            module.weight.copy_(torch.arange(12.0).view(4, 3))
            module.bias.zero_()
        nested = torch.nested.nested_tensor(parts, layout=torch.jagged, device=device)
        return module.to(device)(nested).sin().to_padded_tensor(0.0).detach().cpu()

    assert torch.equal(run("cpu"), run("simacc"))


def test_what_the_cpu_lacks_is_one_line(parts):
    with pytest.raises(NotImplementedError) as refused:
        torch.nested.nested_tensor(parts, device="simacc").new_empty([])
    assert str(refused.value).splitlines()[0] == (
        "Could not run 'aten::new_empty' on nested tensors of the 'simacc' device: it has no CPU kernel to compute with"
    )


@pytest.mark.parametrize("device", ["cpu", "simacc"])
def test_a_dispatch_trace_of_a_padded_encoder(encoder, padded, device):
    x, mask = (t.to(device) for t in padded)
    trace = sd.trace(encoder.to(device), x, kwargs={"src_key_padding_mask": mask})
    layers = [op for op in trace.ops if op.name == "aten._transformer_encoder_layer_fwd"]
    assert [op.inputs[0].shape for op in layers] == [(3, 5, 16)] * 2


@pytest.mark.parametrize("attention", [None, "fused"])
def test_without_data_such_a_trace_says_why_not(encoder, padded, attention):
    x, mask = (t.to("meta") for t in padded)
    with pytest.raises(CaptureError) as refused:
        sd.trace(encoder.to("meta"), x, kwargs={"src_key_padding_mask": mask}, attention=attention)
    assert str(refused.value).startswith("strided nested tensors can't be without data: trace real tensors, or")
    assert "\n" not in str(refused.value)
