"""Several devices: tensors, queues, memory and generators of each; copies, events and gradients across them.

x + x on 670,000 float32 numbers on an H100 takes 3 us; a copy of them over PCIe 5 takes 5 us + 2,680,000 B / 64 GB/s =
46.875 us.
"""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from simdevice.devices import get
from simdevice.errors import SpecError
from simdevice.torch_backend.process import PROCESS

N = 670_000
ADD_PS, COPY_PS = 3_000_000, 46_875_000


@pytest.fixture(autouse=True)
def three_devices():
    torch.simacc.configure("h100", devices=3)
    yield
    torch.accelerator.set_device_index(0)
    torch.simacc.configure(devices=1)


def test_a_tensor_is_where_it_was_made_or_moved():
    x = torch.ones(2, device="simacc:1")
    y = x.to("simacc:2")
    assert (x.device, y.device, (y + 1).device) == tuple(torch.device("simacc", i) for i in (1, 2, 2))
    assert x.to("simacc:1") is x
    assert y.data_ptr() != x.data_ptr()
    assert torch.equal(y.cpu(), x.cpu())
    assert torch.ones_like(x, device="simacc:2").device.index == 2
    assert x.new_zeros(1).device.index == 1
    assert nn.Linear(2, 2).to("simacc:2").weight.device.index == 2
    assert x.clone().device.index == 1


def test_the_threads_device_is_where_tensors_without_an_index_go():
    torch.accelerator.set_device_index(2)
    assert torch.simacc.current_device() == torch.accelerator.current_device_index() == 2
    with torch.simacc.device(1), torch.device("simacc"):
        assert torch.ones(1).device.index == 1
    assert torch.ones(1, device="simacc").device.index == 2
    assert torch.accelerator.device_count() == torch.simacc.device_count() == 3


def test_each_device_has_a_queue_and_a_copy_occupies_two():
    x, y = torch.zeros(N, device="simacc:0"), torch.zeros(N, device="simacc:1")
    with torch.simacc.record() as rec:
        x + x
        y + y
        moved = x.to("simacc:1")
        x + x
        moved + moved
    rows = [(op.name, op.device_index) for op in rec.trace.ops if op.category != "sync"]
    assert rows == [
        ("aten.add", 0),
        ("aten.add", 1),
        ("simacc.copy_between_devices", 0),
        ("aten.add", 0),
        ("aten.add", 1),
    ]
    done = ADD_PS + COPY_PS
    assert rec.run.start_ps[:5].tolist() == [0, 0, ADD_PS, done, done]
    assert rec.run.makespan_ps == done + ADD_PS
    assert dict(rec.run.per_device).keys() == {0, 1}


def test_a_copy_into_a_tensor_and_lists_of_copies_cross_too():
    x, y = torch.arange(4.0, device="simacc:1"), torch.zeros(4, device="simacc:2")
    with torch.simacc.record() as rec:
        y.copy_(x)
        torch._foreach_copy_([y, torch.zeros(4, device="simacc:2")], [x, torch.ones(4)])
    assert torch.equal(y.cpu(), torch.arange(4.0))
    names = [op.name for op in rec.trace.ops if op.category == "transfer"]
    assert names == ["simacc.copy_between_devices"] * 2 + ["simacc.copy_to_device"]


def test_memory_is_each_devices_own():
    before = [torch.accelerator.memory_allocated(i) for i in range(3)]
    x = torch.ones(1000, device="simacc:1")
    after = [torch.accelerator.memory_allocated(i) for i in range(3)]
    assert [b - a for a, b in zip(before, after, strict=True)] == [0, 4000, 0]
    assert torch.simacc.memory_allocated(x.device) == after[1]
    torch.simacc.configure("h100", memory_capacity_bytes="1 MB")
    with pytest.raises(torch.OutOfMemoryError, match=r"^simacc:2 out of memory"):
        torch.ones(1_000_000, device="simacc:2")


def test_generators_are_each_devices_own():
    torch.manual_seed(7)
    drawn = [torch.rand(3, device=f"simacc:{i}").cpu() for i in range(3)]
    assert torch.equal(drawn[0], drawn[1])  # as on CUDA: every device is seeded alike
    torch.rand(1, device="simacc:1")
    assert not torch.equal(torch.rand(3, device="simacc:1").cpu(), torch.rand(3, device="simacc:2").cpu())
    state = torch.simacc.get_rng_state(2)
    first = torch.rand(3, device="simacc:2")
    torch.simacc.set_rng_state(state, 2)
    assert torch.equal(torch.rand(3, device="simacc:2").cpu(), first.cpu())
    assert [g.device.index for g in torch.simacc.default_generators] == [0, 1, 2]


MIXED = {
    "operands": lambda x, y: x + y,
    "a product": lambda x, y: x @ y,
    "a list": lambda x, y: torch.cat([x, y]),
    "an index": lambda x, y: x[y.long()],
    "a result": lambda x, y: torch.add(x, x, out=y),
    "in place": lambda x, y: x.mul_(y),
    "a number on the other device": lambda x, y: x + y.sum(),
    "a module": lambda x, y: nn.Linear(2, 2).to(x.device)(y),
}


@pytest.mark.parametrize("what", MIXED)
def test_devices_do_not_mix(what):
    x, y = torch.ones(2, 2, device="simacc:1"), torch.ones(2, 2, device="simacc:2")
    with pytest.raises(RuntimeError, match=r"^Expected all tensors to be on the same device, .*simacc:[12] and simacc"):
        MIXED[what](x, y)


def test_events_and_streams_across_devices():
    x, y = torch.zeros(N, device="simacc:0"), torch.zeros(N, device="simacc:1")
    done = torch.simacc.Event(enable_timing=True)
    start, end = torch.simacc.Event(enable_timing=True), torch.simacc.Event(enable_timing=True)
    other = torch.Stream(device="simacc:1")
    with torch.simacc.record() as rec:
        x + x
        done.record()
        with other:
            assert torch.accelerator.current_device_index() == 1
            start.record()
            y + y
            other.wait_event(done)
            y + y  # 6 us: its own queue is free at 3 us, and so is device 0
            end.record()
        y + y  # the default stream waits for nothing, but the queue is one
    assert start.elapsed_time(end) == pytest.approx(2 * ADD_PS / 1e9, abs=0)
    adds = [i for i, op in enumerate(rec.trace.ops) if op.name == "aten.add"]
    assert rec.run.start_ps[adds].tolist() == [0, 0, ADD_PS, 2 * ADD_PS]


def test_a_stream_without_an_index_is_the_current_devices_and_can_be_current():
    torch.accelerator.set_device_index(1)
    stream = torch.Stream(device="simacc")
    assert stream.device_index == 1
    default = torch.accelerator.current_stream()
    with stream:
        assert torch.accelerator.current_stream() == stream
        assert torch.simacc.current_stream(0) == torch.simacc.default_stream(0)
    assert torch.accelerator.current_stream() == default


def test_synchronize_waits_for_one_device():
    x, y = torch.zeros(N, device="simacc:0"), torch.zeros(N, device="simacc:1")
    with torch.simacc.record() as rec:
        x + x
        y + y
        y + y
        torch.accelerator.synchronize(0)
        z = torch.add(x, x)  # at 3 us; had it waited for device 1, at 6
        torch.accelerator.synchronize("simacc:1")
        torch.add(z, z)
    adds = [i for i, op in enumerate(rec.trace.ops) if op.name == "aten.add"]
    assert rec.run.start_ps[adds].tolist() == [0, 0, ADD_PS, ADD_PS, 2 * ADD_PS]


class Split(nn.Module):
    """Two halves, each on a device of its own."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 16).to(first), nn.Linear(16, 4).to(second)
        self.where = second

    def forward(self, x):
        return self.second(torch.relu(self.first(x)).to(self.where))


@pytest.mark.parametrize("optimizer", ["SGD", "AdamW"])
def test_a_model_split_over_devices_trains_as_on_the_cpu(optimizer):
    def trained(first: str, second: str) -> list[torch.Tensor]:
        torch.manual_seed(0)
        model = Split("cpu", "cpu")
        model.first.to(first)
        model.second.to(second)
        model.where = second
        steps = getattr(torch.optim, optimizer)(model.parameters(), lr=0.1, foreach=False)
        for _ in range(4):
            steps.zero_grad()
            model(torch.ones(2, 8, device=first)).square().sum().backward()
            steps.step()
        return [p.detach().cpu() for p in model.parameters()]

    torch.simacc.configure("edge-npu")
    with torch.simacc.record() as rec:
        simulated = trained("simacc:1", "simacc:2")
    for ours, theirs in zip(simulated, trained("cpu", "cpu"), strict=True):
        assert torch.equal(ours, theirs)
    backward = {op.device_index for op in rec.trace.ops if op.phase == "backward" and op.category == "matmul"}
    assert backward == {1, 2}
    assert get("edge-npu").run(rec.trace) == rec.run


def test_another_process_gets_the_same_run_from_a_file(tmp_path):
    with torch.simacc.record() as rec:
        x = torch.ones(64, 64, device="simacc:1")
        y = (x @ x).to("simacc:2")
        y.sum().item()
    rec.trace.save(tmp_path / "trace.npz")
    code = (
        "import simdevice as sd, sys; run = sd.device('h100').run(sd.Trace.load(sys.argv[1])); "
        "print(run.makespan_ps, run.device_index.tolist(), run.start_ps.tolist())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "trace.npz")], capture_output=True, text=True, check=True
    )
    mine = (rec.run.makespan_ps, rec.run.device_index.tolist(), rec.run.start_ps.tolist())
    assert done.stdout.split("\n")[0] == " ".join(map(str, mine))


step = st.tuples(st.sampled_from(["add", "to", "item", "synchronize", "matmul"]), st.integers(0, 9), st.integers(0, 2))


@pytest.mark.parametrize("name", ["h100", "edge-npu"])
@given(st.lists(step, max_size=14))
@settings(max_examples=40)
def test_random_programs_on_three_devices_equal_the_cpu_and_their_own_offline_run(name, steps):
    torch.simacc.configure(name)
    host = [torch.arange(16.0).view(4, 4)] * 3
    with torch.simacc.record() as rec:
        live = [h.to(f"simacc:{i}") for i, h in enumerate(host)]
        for kind, i, device in steps:
            i %= len(live)
            if kind == "add":
                live[i], host[i] = live[i] + 1, host[i] + 1
            elif kind == "matmul":
                live[i], host[i] = live[i] @ live[i].softmax(0), host[i] @ host[i].softmax(0)
            elif kind == "to":
                live.append(live[i].to(f"simacc:{device}"))
                host.append(host[i])
            elif kind == "item":
                assert live[i][0, 0].item() == host[i][0, 0].item()
            else:
                torch.accelerator.synchronize(device)
    for ours, theirs in zip(live, host, strict=True):
        assert torch.equal(ours.cpu(), theirs)
    assert get(name).run(rec.trace) == rec.run
    assert not rec.trace.unknown()


def test_a_device_goes_only_when_nothing_lives_on_it():
    x = torch.ones(4, device="simacc:2")
    with pytest.raises(SpecError, match=r"^devices=2: 16 bytes are alive on simacc:2; free its tensors first$"):
        torch.simacc.configure(devices=2)
    assert torch.simacc.device_count() == 3
    del x
    torch.simacc.configure(devices=2)
    assert torch.accelerator.device_count() == 2


def test_a_recording_waits_for_no_device_that_is_gone():
    torch.ones(1, device="simacc:2")
    torch.simacc.configure(devices=1)
    with torch.simacc.record() as rec:
        torch.ones(1, device="simacc")
    torch.simacc.time_s()
    assert rec.run.device_index.tolist() == [0, 0]
    assert set(PROCESS.root.session._sessions) == {0}


@pytest.mark.parametrize("count", [0, 17, True, "2", 1.5])
def test_a_wrong_number_of_devices_is_one_line(count):
    with pytest.raises(SpecError, match=rf"^devices: expected a number from 1 to 16, got {count!r}$"):
        torch.simacc.configure(devices=count)


CHILD = {
    "first use": ("4", "import torch; print(torch.ones(1, device='simacc:3').device)", "simacc:3"),
    "the accelerator": ("4", "import torch; print(torch.accelerator.device_count())", "4"),
    "a wrong number": (
        "many",
        "import torch\ntry: torch.ones(1, device='simacc')\nexcept ValueError as e: print(e)",
        "SIMACC_DEVICES: expected a number from 1 to 16, got 'many'",
    ),
    "after a backward pass": (
        "2",
        "import torch\n"
        "for count in (2, 3, 1, 16):\n"
        "    torch.simacc.configure(devices=count)\n"
        "    x = torch.ones(1, device=f'simacc:{count - 1}', requires_grad=True)\n"
        "    (x * 2).backward(); print(x.grad.item(), x.grad.device)\n"
        "    del x",
        "2.0 simacc:1\n2.0 simacc:2\n2.0 simacc:0\n2.0 simacc:15",
    ),
}


@pytest.mark.parametrize("what", CHILD)
def test_the_environment_and_the_order_of_things(what, monkeypatch):
    count, code, expected = CHILD[what]
    monkeypatch.setenv("SIMACC_DEVICES", count)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.returncode) == (expected, 0), done.stderr


def test_lists_over_devices_are_computed_where_each_tensor_is():
    lists = [torch.ones(2, device="simacc:1"), torch.ones(2, device="simacc:2")]
    with torch.simacc.record() as rec:
        added = torch._foreach_add(lists, 1.0)
        torch._foreach_mul(lists[:1], torch.tensor(2.0))  # one device, and a number of the host's: one operator
        torch._foreach_zero_(lists)
    assert [(t.device.index, t.tolist()) for t in added] == [(1, [2, 2]), (2, [2, 2])]
    assert [t.tolist() for t in lists] == [[0, 0], [0, 0]]
    rows = [(op.name, op.device_index) for op in rec.trace.ops if op.category != "sync"]
    assert rows == [("aten.add", 1), ("aten.add", 2), ("aten._foreach_mul", 1), ("aten.zero_", 1), ("aten.zero_", 2)]
    with pytest.raises(RuntimeError, match=r"^Expected all tensors to be on the same device"):
        torch._foreach_add(lists, lists[::-1])


def test_questions_of_the_accelerator_know_how_many_there_are():
    with pytest.raises(RuntimeError, match=r"^expected a simacc device index below 3, got 5"):
        torch.accelerator.get_device_capability(5)
    torch.accelerator.set_device_index(1)
    x = torch.ones(1000, device="simacc:1")
    assert torch.accelerator.memory_stats(-1) == torch.accelerator.memory_stats(1)  # PyTorch's -1: the current one
    assert torch.accelerator.memory_stats(-1)["allocated_bytes.all.current"] >= x.nbytes
