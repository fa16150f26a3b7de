"""The PyTorch device contract: what programs expect of any accelerator."""

from __future__ import annotations

import copy
import io
import pickle
from multiprocessing.reduction import ForkingPickler

import pytest
import torch
from torch import nn
from torch.nn.utils import rnn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

from simdevice.errors import SpecError, UnknownNameError


def test_the_accelerator_is_simacc():
    assert torch.accelerator.current_accelerator() == torch.device("simacc")
    assert torch.accelerator.is_available()
    assert torch.simacc.get_device_name() == "h100"
    assert torch.get_device_module("simacc") is torch.simacc
    torch.accelerator.synchronize()


def test_mixed_devices_raise_pytorchs_message():
    x = torch.ones(3, device="simacc")
    for call in (lambda: x + torch.ones(3), lambda: torch.ones(3) + x, lambda: torch.cat([x, torch.ones(3)])):
        with pytest.raises(RuntimeError, match=r"^Expected all tensors to be on the same device, but"):
            call()
    assert (x + torch.tensor(1.0)).sum().item() == 6  # a scalar may come from the host


def test_host_indices_index_device_tensors():
    x = torch.arange(6.0).view(2, 3)
    y = x.to("simacc")
    index = torch.tensor([1, 0])
    assert torch.equal(y[index].cpu(), x[index])
    y[index] = 0
    assert y.sum().item() == 0


def test_a_fresh_seed_gives_the_cpus_numbers():
    torch.manual_seed(7)
    host = torch.randn(100), torch.rand(5), torch.randperm(10), torch.empty(6).bernoulli_(0.5)
    torch.manual_seed(7)
    device = (
        torch.randn(100, device="simacc"),
        torch.rand(5, device="simacc"),
        torch.randperm(10, device="simacc"),
        torch.empty(6, device="simacc").bernoulli_(0.5),
    )
    for a, b in zip(host, device, strict=True):
        assert torch.equal(a, b.cpu())
    generator = torch.Generator("simacc").manual_seed(3)
    expected = torch.randn(4, generator=torch.Generator().manual_seed(3))
    assert torch.equal(torch.randn(4, device="simacc", generator=generator).cpu(), expected)


def test_rng_state_is_saved_and_forked():
    state = torch.simacc.get_rng_state()
    first = torch.randn(4, device="simacc").cpu()
    with torch.random.fork_rng(device_type="simacc"):
        torch.randn(100, device="simacc")
    torch.simacc.set_rng_state(state)
    assert torch.equal(torch.randn(4, device="simacc").cpu(), first)


def test_dropout_draws_from_the_devices_generator():
    x = torch.ones(1000, device="simacc")
    torch.manual_seed(1)
    host_state = torch.get_rng_state()
    first = nn.functional.dropout(x, 0.5)
    assert torch.equal(torch.get_rng_state(), host_state)
    torch.manual_seed(1)
    assert torch.equal(nn.functional.dropout(x, 0.5).cpu(), first.cpu())


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpointing_computes_again_with_the_same_dropout_mask(reentrant):
    model = nn.Sequential(nn.Linear(64, 64), nn.Dropout(0.5)).to("simacc")
    gradients = []
    for forward in (model, lambda x: checkpoint(model, x, use_reentrant=reentrant)):
        x = torch.ones(4, 64, device="simacc", requires_grad=True)
        torch.manual_seed(5)
        forward(x).square().sum().backward()
        gradients.append(x.grad.cpu())
    assert torch.equal(*gradients)


@pytest.mark.parametrize("optimizer", [torch.optim.ASGD, torch.optim.NAdam, torch.optim.RAdam])
def test_optimizers_whose_foreach_form_rounds_differently_match_the_cpu_in_the_same_form(optimizer):
    def trained(device, **form):
        torch.manual_seed(0)
        model = nn.Linear(6, 6).to(device)
        updates = optimizer(model.parameters(), lr=0.01, **form)
        x = torch.randn(4, 6).to(device)
        for _ in range(5):
            updates.zero_grad()
            model(x).square().sum().backward()
            updates.step()
        return model.weight.detach().cpu()

    assert torch.equal(trained("simacc"), trained("cpu", foreach=True))  # what PyTorch chooses on an accelerator
    assert torch.equal(trained("simacc", foreach=False), trained("cpu"))


def test_saving_loading_copying_and_pickling():
    model = nn.Linear(3, 2).to("simacc")
    buffer = io.BytesIO()
    torch.save(model.state_dict(), buffer)
    buffer.seek(0)
    loaded = torch.load(buffer)
    assert loaded["weight"].device.type == "simacc"
    buffer.seek(0)
    on_cpu = torch.load(buffer, map_location="cpu")
    assert torch.equal(on_cpu["weight"], model.weight.cpu())
    assert torch.equal(copy.deepcopy(model).weight.cpu(), model.weight.cpu())
    assert torch.equal(pickle.loads(pickle.dumps(model.weight.detach())).cpu(), model.weight.detach().cpu())
    model.load_state_dict(on_cpu)


def test_attention_stays_fused_and_exact():
    q, k, v = torch.randn(3, 2, 4, 16, 8).unbind(0)
    with torch.simacc.record() as rec:
        out = nn.functional.scaled_dot_product_attention(q.to("simacc"), k.to("simacc"), v.to("simacc"))
    assert "aten._scaled_dot_product_flash_attention_for_cpu" in [op.name for op in rec.trace.ops]
    assert torch.equal(out.cpu(), nn.functional.scaled_dot_product_attention(q, k, v))


def test_autocast_lowers_matmuls_and_keeps_softmax():
    x = torch.randn(4, 4, device="simacc")
    with torch.autocast("simacc", dtype=torch.bfloat16):
        assert (x @ x).dtype == torch.bfloat16
        assert x.softmax(-1).dtype == torch.float32


def test_optional_and_undefined_tensors_lists_and_out():
    x = torch.randn(2, 3, 8, 8)
    conv = nn.Conv2d(3, 4, 3, bias=False)
    expected = conv(x)
    assert torch.equal(conv.to("simacc")(x.to("simacc")).cpu(), expected)
    parts = torch.split(x.to("simacc"), 1)
    assert torch.equal(torch.cat(parts).cpu(), x)
    values, indices = torch.empty(0, device="simacc"), torch.empty(0, dtype=torch.long, device="simacc")
    torch.topk(torch.tensor([1.0, 3.0, 2.0], device="simacc"), 2, out=(values, indices))
    assert values.tolist() == [3.0, 2.0]
    assert indices.tolist() == [1, 2]


def test_complex_views_and_conjugates():
    z = torch.randn(4, dtype=torch.complex64)
    w = z.to("simacc")
    assert torch.equal(w.conj().cpu(), z.conj())
    assert torch.equal(torch.view_as_real(w).cpu(), torch.view_as_real(z))
    assert torch.equal((w.conj() * w).cpu(), z.conj() * z)
    assert torch.equal(w.imag.cpu(), z.imag)


def test_unsupported_layouts_and_dtypes_are_python_exceptions():
    with pytest.raises(NotImplementedError, match=r"sparse|Sparse"):
        torch.ones(2, 2, device="simacc").to_sparse()
    with pytest.raises(NotImplementedError, match="quantized"):
        torch.quantize_per_tensor(torch.ones(2, device="simacc"), 0.1, 0, torch.qint8)


def test_operators_registered_later_run_through_the_fallback():
    library = torch.library.Library("simacc_test", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x * 2, "CPU")
    x = torch.ones(3, device="simacc")
    with torch.simacc.record() as rec:
        y = torch.ops.simacc_test.twice(x)
    assert y.device.type == "simacc"
    assert y.tolist() == [2.0, 2.0, 2.0]
    assert rec.trace.unknown() == {"simacc_test.twice": "no cost rule"}
    assert rec.trace.is_lower_bound


def test_wrong_machines_are_refused_and_change_nothing(tmp_path):
    with pytest.raises(UnknownNameError, match=r"^unknown device 'h10': did you mean 'h100'\?$"):
        torch.simacc.configure("h10")
    with pytest.raises(SpecError, match="dram_bandwidth_bytes_per_s: expected more than zero, got '-1 GB/s'"):
        torch.simacc.configure("h100", dram_bandwidth_bytes_per_s="-1 GB/s")
    broken = tmp_path / "broken.yaml"
    broken.write_text("kind: roofline\n  name: [")
    with pytest.raises(SpecError, match=r"broken\.yaml"):
        torch.simacc.configure(str(broken))
    with pytest.raises(SpecError, match="choose the device before recording"), torch.simacc.record():
        torch.simacc.configure("a100")
    assert torch.simacc.get_device_name() == "h100"


def test_training_a_cnn_is_bit_equal_to_the_cpu():
    def build() -> nn.Sequential:
        torch.manual_seed(0)
        return nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 10)
        )

    x, y = torch.randn(8, 1, 8, 8), torch.randint(0, 10, (8,))
    results = []
    for device in ("cpu", "simacc"):
        model = build().to(device)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, foreach=True)
        for _ in range(3):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x.to(device)), y.to(device)).backward()
            optimizer.step()
        results.append([p.detach().cpu() for p in model.parameters()])
    for a, b in zip(*results, strict=True):
        assert torch.equal(a, b)


def test_moving_a_module_keeps_its_parameters_tied_and_known_to_the_optimizer():
    embed, head = nn.Embedding(5, 4), nn.Linear(4, 5, bias=False)
    head.weight = embed.weight
    model = nn.Sequential(embed, head)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    start = torch.simacc.memory_allocated()
    model.to("simacc")
    assert model[0].weight is model[1].weight is optimizer.param_groups[0]["params"][0]
    assert torch.simacc.memory_allocated() - start == 5 * 4 * 4
    model(torch.tensor([1, 2]).to("simacc")).sum().backward()
    before = embed.weight.detach().cpu()
    optimizer.step()
    assert not torch.equal(model[1].weight.detach().cpu(), before)
    model.cpu()
    assert head.weight.device.type == "cpu"
    assert head.weight is embed.weight


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_packed_sequences_of_different_lengths_train(kind):
    """Their batch sizes stay on the host, as on any device."""
    torch.manual_seed(0)
    cpu = kind(4, 5, num_layers=2, batch_first=True)
    sim = copy.deepcopy(cpu).to("simacc")
    x = torch.randn(3, 6, 4, requires_grad=True)
    y = x.detach().to("simacc").requires_grad_()
    outputs = []
    for layer, t in ((cpu, x), (sim, y)):
        packed = rnn.pack_padded_sequence(t, torch.tensor([6, 2, 4]), batch_first=True, enforce_sorted=False)
        assert (packed.data.device, packed.batch_sizes.device.type) == (t.device, "cpu")
        out, lengths = rnn.pad_packed_sequence(layer(packed)[0], batch_first=True)
        assert lengths.tolist() == [6, 2, 4]
        out.pow(2).sum().backward()
        outputs.append(out)
    assert torch.equal(outputs[1].cpu(), outputs[0])
    for a, b in zip([*cpu.parameters(), x], [*sim.parameters(), y], strict=True):
        assert torch.equal(b.grad.cpu(), a.grad)


def test_sparse_gradients_are_refused_in_the_devices_words():
    embedding = nn.Embedding(5, 3, sparse=True).to("simacc")
    with pytest.raises(
        NotImplementedError, match=r"^simacc has no sparse tensors, which '.*' makes or takes; run this"
    ):
        embedding(torch.tensor([1, 2], device="simacc")).sum().backward()


def received(what):
    """What another process gets: pickled as multiprocessing does it."""
    buffer = io.BytesIO()
    ForkingPickler(buffer).dump(what)
    return pickle.loads(buffer.getbuffer())


def test_tensors_go_to_other_processes_by_value():
    device = torch.arange(4.0, device="simacc")
    grid = torch.arange(24.0, device="simacc").view(4, 6)
    numbers = torch.complex(device, device)
    views = [
        device.view(2, 2).t(), grid[1:, ::2], grid[2], device[:1].expand(3), device.as_strided((2, 2), (1, 1), 1),
        device[:0], numbers.conj(), numbers.conj().imag,
    ]  # fmt: skip
    for one in [device, nn.Parameter(device), device.clone().requires_grad_(), *views]:
        back = received(one)
        assert (type(back), back.device, back.requires_grad) == (type(one), one.device, one.requires_grad)
        assert (back.shape, back.stride(), back.storage_offset()) == (one.shape, one.stride(), one.storage_offset())
        assert (back.is_conj(), back.is_neg()) == (one.is_conj(), one.is_neg())
        assert torch.equal(back.cpu(), one.cpu())
        assert back.numel() == 0 or back.data_ptr() != one.data_ptr()
    with pytest.raises(RuntimeError, match=r"^a tensor that autograd follows can't go to another process: send "):
        received(device.clone().requires_grad_() * 2)


def test_tensors_that_share_memory_share_it_in_the_other_process():
    base = torch.zeros(6, device="simacc")
    whole, column, again = received([base, base.view(2, 3)[:, 1], base])
    assert again is whole
    whole[4] = 5
    assert column.tolist() == [0, 5]
    assert base.tolist() == [0] * 6


def test_a_worker_loads_from_tensors_on_the_device():
    data = TensorDataset(torch.arange(6.0, device="simacc"))
    batches = [b for (b,) in DataLoader(data, 2, num_workers=1, multiprocessing_context="fork")]
    assert [b.tolist() for b in batches] == [[0, 1], [2, 3], [4, 5]]
    assert {b.device.type for b in batches} == {"simacc"}


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.ones(2, device="simacc:1"),
        lambda: torch.ones(2).to("simacc:1"),
        lambda: torch.Generator(device="simacc:1"),
    ],
)
def test_there_is_one_device(make):
    with pytest.raises(
        RuntimeError,
        match=r"^expected a simacc device index below 1, got 1; torch.simacc.configure\(devices=2\) makes as many",
    ):
        make()


@pytest.mark.parametrize(
    "run",
    [
        lambda one: torch.ones(()).add_(one),
        lambda one: torch.add(one, one, out=torch.ones(())),
        lambda one: torch.maximum(one, one, out=torch.ones(())),
        lambda one: nn.LSTMCell(1, 1).to("simacc")(one.view(1, 1), (one.view(1, 1), torch.ones(1, 1))),
    ],
)
def test_results_and_states_are_not_taken_from_the_host(run):
    with pytest.raises(RuntimeError, match=r"^Expected all tensors to be on the same device, .*simacc:0 and cpu"):
        run(torch.ones((), device="simacc"))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.int64, torch.float32])
def test_histograms_count_integers_as_on_other_accelerators(dtype):
    x = torch.tensor([0, 1, 1, 3], dtype=dtype)
    counts = torch.histc(x.to("simacc"), bins=4, min=0, max=3)
    assert counts.dtype == dtype
    assert counts.tolist() == [1, 2, 0, 1]
