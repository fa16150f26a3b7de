"""A storage keeps a CPU view of itself for kernels to read. Nothing that a kernel does to it shows in a later call."""

from __future__ import annotations

import threading

import pytest
import torch


@pytest.fixture(scope="module")
def library():
    """Operators in Python whose CPU kernels misuse the tensors they are given."""
    kept = []
    lib = torch.library.Library("simacc_views", "FRAGMENT")
    lib.define("keep(Tensor x) -> Tensor")
    lib.define("flatten(Tensor x) -> Tensor")
    lib.define("ask(Tensor x) -> Tensor")

    def keep(x):
        kept.append(x)
        return x + 1

    def flatten(x):
        x.unsqueeze_(0)
        return x * 2

    def ask(x):
        with torch.enable_grad():
            x.requires_grad_()
        return x.detach() * 3

    for name, kernel in {"keep": keep, "flatten": flatten, "ask": ask}.items():
        lib.impl(name, kernel, "CPU")
    yield torch.ops.simacc_views, kept
    kept.clear()
    del lib


def twice(x):
    """Two reads, so that the second finds what the first left."""
    return (x + x).cpu(), (x * 3).cpu()


def test_a_kernel_that_keeps_its_input_has_it_alone(library):
    operators, kept = library
    x = torch.arange(6.0).reshape(2, 3).to("simacc")
    for _ in range(3):
        assert torch.equal(operators.keep(x).cpu(), x.cpu() + 1)
    assert len({id(k) for k in kept}) == 3
    kept[0].resize_(0)
    kept[1].unsqueeze_(0)
    assert x.shape == (2, 3)
    assert all(torch.equal(a, b) for a, b in zip(twice(x), twice(x.cpu()), strict=True))


def test_a_kernel_that_changes_the_layout_of_its_input_changes_nothing_else(library):
    operators, _ = library
    x = torch.arange(6.0).reshape(2, 3).to("simacc")
    for _ in range(2):
        assert operators.flatten(x).shape == (1, 2, 3)
        assert x.shape == (2, 3)
        assert (x + 1).shape == (2, 3)


def test_a_kernel_that_wants_gradients_of_its_input_leaves_none(library):
    operators, _ = library
    x = torch.ones(3, device="simacc")
    for _ in range(2):
        assert not operators.ask(x).requires_grad
        assert not (x + 1).requires_grad


def test_views_of_one_storage_are_each_seen_as_they_are():
    base = torch.arange(12.0).reshape(3, 4)
    device = base.to("simacc")
    for view in (
        lambda t: t.t(),
        lambda t: t[1:],
        lambda t: t[:, ::2],
        lambda t: t.view(torch.int32),
        lambda t: t.reshape(2, 6),
        lambda t: t,
    ):
        for _ in range(2):
            assert torch.equal((view(device) + 1).cpu(), view(base) + 1)
    z = torch.randn(4, dtype=torch.complex64)
    for _ in range(2):
        assert torch.equal((z.to("simacc").conj() * 2).cpu(), z.conj() * 2)


def test_results_are_read_after_they_changed_in_place():
    x = torch.arange(4.0).to("simacc")
    y = x + 1
    for _ in range(2):
        y.add_(1)
        assert torch.equal((y * 1).cpu(), y.cpu())
    y.unsqueeze_(0)
    assert (y * 1).shape == (1, 4)
    y.resize_(8).fill_(2)
    assert torch.equal((y * 1).cpu(), torch.full((8,), 2.0))
    torch.mul(x, 2, out=y.resize_(0))
    assert torch.equal((y + 0).cpu(), torch.arange(4.0) * 2)
    y.set_(torch.ones(2, device="simacc"))
    assert torch.equal((y + 0).cpu(), torch.ones(2))


def test_tensors_of_inference_mode_serve_outside_of_it():
    x = torch.ones(3, device="simacc")
    with torch.inference_mode():
        inside = x + 1
        again = inside + 1
    assert torch.equal((again + inside).cpu(), torch.full((3,), 5.0))
    w = torch.ones(3, device="simacc", requires_grad=True)
    (w * x).sum().backward()
    assert torch.equal(w.grad.cpu(), torch.ones(3))


def test_threads_read_one_tensor_at_the_same_time():
    x = torch.arange(64.0)
    device, wrong = x.to("simacc"), []

    def read():
        for _ in range(2000):
            got = device + device
            if got.shape != (64,):
                wrong.append(got.shape)
        if not torch.equal(got.cpu(), x + x):
            wrong.append(got)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_freed_storages_free_their_views():
    torch.simacc.synchronize()
    before = torch.simacc.memory_allocated()
    for _ in range(100):
        y = torch.ones(1 << 16, device="simacc") + 1
        y = y + y
    del y
    assert torch.simacc.memory_allocated() == before
