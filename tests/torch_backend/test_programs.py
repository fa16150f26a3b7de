"""Random small programs: the device gives the CPU's results, strides and aliasing, and a recording
simulates offline exactly as it did live."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from simdevice.devices import get


class Pair:
    """The same program's tensors on both devices."""

    def __init__(self, cpu: torch.Tensor, sim: torch.Tensor) -> None:
        self.cpu, self.sim = cpu, sim

    def apply(self, function, *others: Pair) -> Pair:
        return Pair(function(self.cpu, *(o.cpu for o in others)), function(self.sim, *(o.sim for o in others)))


def broadcastable(a: Pair, b: Pair, *, into_a: bool = False) -> bool:
    try:
        shape = torch.broadcast_shapes(a.cpu.shape, b.cpu.shape)
    except RuntimeError:
        return False
    return not into_a or tuple(shape) == tuple(a.cpu.shape)


def overlaps_itself(t: torch.Tensor) -> bool:
    return any(stride == 0 and size > 1 for size, stride in zip(t.shape, t.stride(), strict=True))


UNARY = {
    "relu": torch.relu,
    "neg": torch.neg,
    "clone": torch.clone,
    "sum": lambda t: t.sum(-1) if t.dim() else t.sum(),
    "double_and_back": lambda t: t.double().float(),
    "zeros_like": torch.zeros_like,
    "softmax": lambda t: t.softmax(-1) if t.dim() else t.exp(),
    "there_and_back": lambda t: t.cpu().to(t.device, copy=True),
}
VIEWS = {
    "t": lambda t: t.t() if t.dim() <= 2 else t.transpose(0, -1),
    "half": lambda t: t[: max(1, t.shape[0] // 2)] if t.dim() else t.view(1),
    "every_second": lambda t: t[..., ::2] if t.dim() else t.unsqueeze(0),
    "flatten": lambda t: t.flatten(),
    "unsqueeze": lambda t: t.unsqueeze(0) if t.dim() < 4 else t,
    "expand": lambda t: t.expand(2, *t.shape) if t.dim() < 4 else t,
    "select": lambda t: t.select(0, 0) if t.dim() else t,
    "detach": torch.detach,
}
IN_PLACE = {
    "add_": lambda t: t.add_(1.5),
    "mul_": lambda t: t.mul_(0.5),
    "relu_": torch.relu_,
    "zero_": lambda t: t.zero_(),
    "fill_diagonal": lambda t: t[..., :1].fill_(3.0) if t.dim() else t.fill_(3.0),
}
BINARY = {"add": torch.add, "mul": torch.mul, "sub": torch.sub, "maximum": torch.maximum}
BINARY_IN_PLACE = {"add_": lambda a, b: a.add_(b), "copy_": lambda a, b: a.copy_(b), "mul_": lambda a, b: a.mul_(b)}

step = st.tuples(
    st.sampled_from(
        ["unary", "view", "in_place", "binary", "binary_in_place", "out", "cat", "item", "matmul", "to_host"]
    ),
    st.integers(0, 99),
    st.integers(0, 99),
    st.integers(0, 99),
)


def pick(table, n):
    return table[sorted(table)[n % len(table)]]


def run_step(kind: str, live: list[Pair], i: int, j: int, k: int) -> None:
    a, b = live[i % len(live)], live[j % len(live)]
    if kind == "unary":
        live.append(a.apply(pick(UNARY, k)))
    elif kind == "view":
        live.append(a.apply(pick(VIEWS, k)))
    elif kind == "in_place" and not overlaps_itself(a.cpu):
        live.append(a.apply(pick(IN_PLACE, k)))
    elif kind == "binary" and broadcastable(a, b):
        live.append(a.apply(pick(BINARY, k), b))
    elif kind == "binary_in_place" and broadcastable(a, b, into_a=True) and not overlaps_itself(a.cpu):
        # PyTorch leaves partly overlapping operands undefined, so only disjoint or equal ones.
        if a.cpu.untyped_storage().data_ptr() != b.cpu.untyped_storage().data_ptr():
            a.apply(pick(BINARY_IN_PLACE, k), b)
    elif kind == "out" and broadcastable(a, b):
        out = Pair(torch.empty(0), torch.empty(0, device="simacc"))
        torch.add(a.cpu, b.cpu, out=out.cpu)
        torch.add(a.sim, b.sim, out=out.sim)
        live.append(out)
    elif kind == "cat" and a.cpu.dim() and a.cpu.shape[1:] == b.cpu.shape[1:] and b.cpu.dim() == a.cpu.dim():
        live.append(a.apply(lambda x, y: torch.cat([x, y]), b))
    elif kind == "item" and a.cpu.numel():
        x, y = a.cpu.flatten()[0].item(), a.sim.flatten()[0].item()
        assert x == y or (x != x and y != y)
    elif kind == "matmul" and a.cpu.dim() == 2:
        live.append(a.apply(lambda t: t @ t.t()))
    elif kind == "to_host":
        assert torch.equal(a.sim.cpu().nan_to_num(), a.cpu.nan_to_num())


def same_layout(pairs: list[Pair]) -> None:
    for p in pairs:
        assert p.sim.shape == p.cpu.shape
        assert p.sim.stride() == p.cpu.stride()
        assert p.sim.storage_offset() == p.cpu.storage_offset()
        assert torch.equal(p.sim.cpu().nan_to_num(), p.cpu.nan_to_num())
    for p in pairs:
        for q in pairs:
            on_cpu = p.cpu.untyped_storage().data_ptr() == q.cpu.untyped_storage().data_ptr()
            on_sim = p.sim.untyped_storage().data_ptr() == q.sim.untyped_storage().data_ptr()
            assert on_cpu == on_sim or p.cpu.untyped_storage().nbytes() == 0


@pytest.mark.parametrize("name", ["h100", "edge-npu"])
@given(
    shapes=st.lists(st.sampled_from([(), (4,), (3, 4), (2, 3, 4)]), min_size=1, max_size=3),
    steps=st.lists(step, max_size=12),
)
@settings(max_examples=150)
def test_random_programs_equal_the_cpu_and_their_own_offline_run(name, shapes, steps):
    torch.simacc.configure(name)
    generator = torch.Generator().manual_seed(0)
    host = [torch.randn(s, generator=generator) for s in shapes]
    with torch.simacc.record() as rec:
        live = [Pair(h, h.to("simacc")) for h in host]
        for kind, i, j, k in steps:
            run_step(kind, live, i, j, k)
    same_layout(live)
    assert get(name).run(rec.trace) == rec.run
    assert not rec.trace.unknown()
