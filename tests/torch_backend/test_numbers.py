"""The CPU's bits where PyTorch takes another road on accelerators: recurrent layers, dropout, filled memory."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from torch import nn
from torch.nn.utils import rnn

KINDS = {
    "LSTM": (nn.LSTM, {}),
    "LSTM with projections": (nn.LSTM, {"proj_size": 3}),
    "GRU": (nn.GRU, {}),
    "RNN": (nn.RNN, {}),
    "RNN with relu": (nn.RNN, {"nonlinearity": "relu"}),
}
EVERY = [dict(zip(("bidirectional", "batch_first", "bias"), k, strict=True)) for k in product((True, False), repeat=3)]
# Each option once against all others' default, for the fast suite.
FEW = [{"bidirectional": True}, {"batch_first": True, "bias": False}, {"dropout": 0.3}]


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def same(expected, actual):
    assert len(expected) == len(actual)
    for a, b in zip(expected, actual, strict=True):
        assert a.dtype == b.dtype
        assert a.stride() == b.stride()
        assert torch.equal(a, b.cpu())


def layers(device, kind, dtype, *, packed, grad, **options):
    """Outputs, last states and (`grad`) all gradients of two layers over three steps of a batch of four."""
    torch.manual_seed(0)
    layer, own = KINDS[kind]
    module = layer(5, 6, num_layers=2, **own, **options).to(dtype).to(device)
    x = torch.randn(3, 4, 5).to(dtype).to(device).requires_grad_(grad)
    batch_first = options.get("batch_first", False)
    lengths = [4, 2, 1] if batch_first else [3, 3, 2, 1]
    torch.manual_seed(1)
    with torch.set_grad_enabled(grad):
        y, states = module(rnn.pack_padded_sequence(x, lengths, batch_first=batch_first) if packed else x)
    out = [y.data if packed else y, *(states if isinstance(states, tuple) else [states])]
    if grad:
        sum(t.square().sum() for t in out).backward()
        out += [x.grad, *(p.grad for p in module.parameters())]
    return out


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
@pytest.mark.parametrize("packed", [False, True], ids=["whole", "packed"])
@pytest.mark.parametrize("kind", KINDS)
def test_recurrent_layers_and_their_gradients(kind, packed):
    for options in FEW:
        expected, actual = (
            layers(d, kind, torch.float32, packed=packed, grad=True, **options) for d in ("cpu", "simacc")
        )
        same(expected, actual)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_recurrent_layers_with_every_option(kind, dtype):
    for options, packed, grad in product(EVERY, (False, True), (False, True)):
        expected, actual = (layers(d, kind, dtype, packed=packed, grad=grad, **options) for d in ("cpu", "simacc"))
        same(expected, actual)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("cell", [nn.LSTMCell, nn.GRUCell, nn.RNNCell], ids=lambda c: c.__name__)
def test_cells(cell, dtype):
    def run(device):
        torch.manual_seed(0)
        module = cell(5, 6).to(dtype).to(device)
        x = torch.randn(3, 5).to(dtype).to(device).requires_grad_()
        states = module(x, module(x))
        states = states if isinstance(states, tuple) else (states,)
        sum(t.square().sum() for t in states).backward()
        return [*states, x.grad, *(p.grad for p in module.parameters())]

    same(run("cpu"), run("simacc"))


def test_an_lstm_is_an_operator_per_layer_and_direction_and_a_gru_the_cpus_steps():
    x = torch.randn(3, 4, 5, device="simacc")
    lstm, gru = nn.LSTM(5, 6, 2, bidirectional=True).to("simacc"), nn.GRU(5, 6).to("simacc")
    with torch.simacc.record() as rec:
        lstm(x)[0].sum().backward()
    names = [op.name for op in rec.trace.ops]
    assert (
        names.count("aten.mkldnn_rnn_layer") == names.count("aten.mkldnn_rnn_layer_backward") == 4
    )  # 2 layers, 2 ways
    assert "aten.addmm" not in names
    assert not rec.trace.unknown()
    with torch.simacc.record() as rec:
        gru(x)[0].sum().backward()
    assert not rec.trace.unknown()
    names = [op.name for op in rec.trace.ops]
    assert names.count("aten.addmm") == 4  # all inputs at once, then the state of each of 3 steps
    assert names.count("aten.tanh_") == names.count("aten.tanh_backward") == 3
    assert not any("_thnn_" in n for n in names)


@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU], ids=lambda c: c.__name__)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_recurrent_layers_under_autocast_multiply_in_its_type(layer, dtype):
    module, x = layer(5, 6).to("simacc"), torch.randn(3, 4, 5, device="simacc")
    with torch.autocast("simacc", dtype=dtype), torch.simacc.record() as rec:
        y = module(x)[0]
    products = [op for op in rec.trace.ops if op.name in ("aten.addmm", "aten.mkldnn_rnn_layer")]
    assert products
    assert all(t.dtype == str(dtype).removeprefix("torch.") for op in products for t in op.inputs)
    y.float().sum().backward()
    assert module.weight_ih_l0.grad.dtype == torch.float32


MISFITS = {
    "three steps of no input": lambda d: nn.GRU(5, 6).to(d)(torch.ones(0, 4, 5, device=d)),
    "a state too many": lambda d: nn.LSTM(5, 6).to(d)(
        torch.ones(3, 4, 5, device=d), (torch.ones(2, 4, 6, device=d), torch.ones(2, 4, 6, device=d))
    ),
    "a cell's input": lambda d: nn.GRUCell(5, 6).to(d)(torch.ones(4, 3, device=d)),
    "a cell's batch": lambda d: nn.LSTMCell(5, 6).to(d)(torch.ones(4, 5, device=d), (torch.ones(3, 6, device=d),) * 2),
    "a cell's state": lambda d: nn.RNNCell(5, 6).to(d)(torch.ones(4, 5, device=d), torch.ones(4, 7, device=d)),
    "a cell's weights": lambda d: torch.gru_cell(
        *(torch.ones(*s, device=d) for s in ((4, 5), (4, 6), (9, 5), (18, 6)))
    ),
}


@pytest.mark.parametrize("what", MISFITS)
def test_recurrent_layers_refuse_in_pytorchs_words(what):
    words = []
    for device in ("cpu", "simacc"):
        with pytest.raises(RuntimeError) as refused:
            MISFITS[what](device)
        words.append(str(refused.value).splitlines()[0])
    assert words[0] == words[1]


# 1 / 0.85 rounds to another float32 than 1 / float32(0.85); in bfloat16 so does almost every share.
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("p", [0.1, 0.15, 0.45, 0.5, 0.97])
def test_dropout_and_its_gradient(p, dtype):
    def run(device):
        torch.manual_seed(3)
        x = torch.linspace(-2, 2, 1000).view(10, 100).to(dtype).t().to(device).requires_grad_()
        y = nn.functional.dropout(x, p)
        y.backward(torch.linspace(1, 3, 1000).view(100, 10).to(dtype).to(device))
        return [y.detach(), x.grad]

    same(run("cpu"), run("simacc"))


@pytest.mark.filterwarnings("ignore:.*deterministic")
@pytest.mark.parametrize("dtype", [torch.float32, torch.int32, torch.bool, torch.complex64], ids=str)
def test_deterministic_algorithms_fill_new_memory(dtype):
    makers = {
        "empty": lambda like, d: torch.empty(3, 4, dtype=dtype, device=d),
        "channels last": lambda like, d: torch.empty(1, 2, 3, 4, dtype=dtype, device=d).to(
            memory_format=torch.channels_last
        ),
        "empty_strided": lambda like, d: torch.empty_strided((3, 4), (1, 3), dtype=dtype, device=d),
        "empty_permuted": lambda like, d: torch.empty_permuted((3, 4), (1, 0), dtype=dtype, device=d),
        "empty_like": lambda like, d: torch.empty_like(like),
        "new_empty": lambda like, d: like.new_empty(5),
        "new_empty_strided": lambda like, d: like.new_empty_strided((2, 3), (3, 1)),
        "resize_": lambda like, d: like.resize_(7),
    }
    torch.use_deterministic_algorithms(True)
    try:
        for make in makers.values():
            expected, actual = (make(torch.ones(2, 2, dtype=dtype, device=d), d) for d in ("cpu", "simacc"))
            torch.testing.assert_close(actual.cpu(), expected, rtol=0, atol=0, equal_nan=True)
    finally:
        torch.use_deterministic_algorithms(False)


def test_backward_threads_take_the_number_of_threads_that_the_program_sets():
    """The sum over a long batch depends on it; the device's thread is older than the setting."""
    x, y = torch.randn(64, 3, 16, 16), torch.randn(64, 8, 14, 14)

    def gradient(device):
        torch.manual_seed(0)
        layer = nn.Conv2d(3, 8, 3).to(device)
        (layer(x.to(device)) * y.to(device)).sum().backward()
        return layer.weight.grad.cpu()

    for number in (2, 1, 3, 1):
        torch.set_num_threads(number)
        assert torch.equal(gradient("cpu"), gradient("simacc"))
