"""`nn.DataParallel` over two devices: the CPU's numbers, recorded as one program, copies that occupy the links."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn.parallel import comm, data_parallel


@pytest.fixture(autouse=True)
def two_devices():
    torch.simacc.configure("h100", devices=2)


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


@pytest.mark.parametrize("where", ["cpu", "simacc:0"])
def test_forward_and_gradients_are_those_of_the_halves(where):
    ours, theirs, x = model(), model(), torch.randn(10, 8)
    y = nn.DataParallel(ours.to("simacc:0"))(x.to(where))
    y.sum().backward()
    halves = [theirs(part) for part in x.chunk(2)]
    for half in halves:
        half.sum().backward()
    assert y.device == torch.device("simacc:0")
    assert torch.equal(y.cpu(), torch.cat(halves))
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(a.grad.cpu(), b.grad)


def test_a_recording_has_what_the_replicas_threads_did():
    parallel, x = nn.DataParallel(nn.Linear(8, 4).to("simacc:0")), torch.ones(6, 8, device="simacc:0")
    with torch.simacc.record() as rec:
        parallel(x)
    products = {op.device_index: op for op in rec.trace.ops if op.name == "aten.addmm"}
    assert products.keys() == {0, 1}
    # 8 * 4 numbers and a bias of 4, on the copies' device too
    assert [products[i].cost.weight_bytes for i in (0, 1)] == [36 * 4, 36 * 4]
    # to device 1: half of the input, and all parameters in one buffer; back: half of the result
    moved = sorted(op.cost.bytes_read for op in rec.trace.ops if op.name == "simacc.copy_between_devices")
    assert moved == [3 * 4 * 4, 3 * 8 * 4, 36 * 4]
    assert torch.simacc.current_device() == 0


def test_the_function_and_the_host_as_output():
    x = torch.randn(5, 8)
    with pytest.warns(FutureWarning, match="^Using -1 to represent CPU tensor is deprecated"):
        out = data_parallel(model().to("simacc:0"), x.to("simacc:0"), [0, 1], output_device=-1)
    assert torch.equal(out, torch.cat([model()(part) for part in (x[:3], x[3:])]))


def test_what_parallel_code_calls_itself():
    x = torch.arange(6.0, device="simacc:0")
    copies = comm.broadcast(x, [0, 1])
    assert [t.device.index for t in copies] == [0, 1]
    parts = comm.scatter(x, [0, 1], [2, 4])
    assert [t.tolist() for t in parts] == [[0, 1], [2, 3, 4, 5]]
    assert comm.gather(parts, destination="simacc:1").tolist() == list(range(6))
    out = [torch.empty(2, device="simacc:1"), torch.empty(4, device="simacc:0")]
    assert comm.scatter(x, out=out)[1].tolist() == [2, 3, 4, 5]
    assert comm.broadcast(x[:2], out=[out[0]])[0].tolist() == [0, 1]
    assert comm.reduce_add([x, x.to("simacc:1")], 0).tolist() == [0, 2, 4, 6, 8, 10]
    with pytest.raises(
        RuntimeError, match=r"^Input tensor at index 1 has invalid shape \[2, 1\], but expected \[2, 3\]$"
    ):
        comm.gather([x.view(2, 3), torch.ones(2, 1, device="simacc:1")], dim=0)


def test_tensors_of_many_types_come_back_in_order():
    tensors = [torch.ones(2, device="simacc:0"), torch.arange(3, device="simacc:0"), torch.zeros(1, device="simacc:0")]
    here, there = comm.broadcast_coalesced(tensors, [0, 1])
    assert all(a is b for a, b in zip(here, tensors, strict=True))
    assert [t.dtype for t in there] == [t.dtype for t in tensors]
    assert [t.tolist() for t in there] == [[1, 1], [0, 1, 2], [0]]
    there[0].add_(1)
    assert there[2]._version == 0  # the buffer that carried both is nobody's business


def test_a_replica_that_fails_says_where():
    class Odd(nn.Module):
        def forward(self, x):
            if x.device.index == 1:
                raise KeyError("mine")
            return x

    with pytest.raises(KeyError, match="replica 1 on device 1"):
        nn.DataParallel(copy.deepcopy(nn.Sequential(Odd(), nn.Linear(1, 1))).to("simacc:0"))(torch.ones(2, 1))


def test_replicas_that_the_program_applies_itself_are_recorded():
    one = nn.Linear(8, 4).to("simacc:0")
    inputs = [torch.ones(2, 8, device=f"simacc:{i}") for i in (0, 1)]
    with torch.simacc.record() as rec:
        nn.parallel.parallel_apply(nn.parallel.replicate(one, [0, 1]), inputs)
    assert sorted(op.device_index for op in rec.trace.ops if op.name == "aten.addmm") == [0, 1]
