"""torch.profiler: device time per ATen operator equals that operator's in a recording, to the nanosecond; device memory
is the device's; the exported trace has a row and a clock of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import warnings
from collections import Counter
from decimal import Decimal
from itertools import pairwise

import pytest
import torch
from torch import nn
from torch.autograd import DeviceType
from torch.autograd.profiler import record_function
from torch.profiler import ProfilerActivity, profile, schedule

import simdevice as sd
from simdevice.devices import Device
from simdevice.devices.offload import Offload
from simdevice.torch_backend import profiler, profiler_tables
from simdevice.torch_backend.process import PROCESS

PS_PER_NS = 1000
# Rows that are no ATen operator's own, and the operator that PyTorch calls for them.
LAUNCHED_BY = {
    "simacc.copy_to_device": ("aten::copy_",),
    "simacc.copy_to_host": ("aten::copy_", "aten::_local_scalar_dense"),
}


def train_step():
    """A step of a small network: forward, backward and an optimizer."""
    torch.manual_seed(0)
    parts = nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 64), nn.LayerNorm(64), nn.Linear(64, 10)
    model = nn.Sequential(*parts).to("simacc")
    optimizer = torch.optim.AdamW(model.parameters())
    images, labels = torch.randn(4, 3, 8, 8), torch.zeros(4, dtype=torch.long, device="simacc")

    def step() -> float:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images.to("simacc")), labels)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def recorded_ps(run) -> dict[str, int]:
    """Busy picoseconds per operator of a run; those that took no time left out."""
    groups = run.trace.groups("operator")
    return {k: int(ps) for k, ps in zip(groups.keys, groups.sums(run.busy_ps), strict=True) if ps}


def self_ns(prof) -> dict[str, int]:
    """Own device time in nanoseconds of each operator on the host."""
    ns = {e.key: round(e.self_device_time_total * 1000) for e in prof.key_averages() if e.device_type == DeviceType.CPU}
    return {name: value for name, value in ns.items() if value}


def kernel_ns(prof) -> dict[str, int]:
    averages = [e for e in prof.key_averages() if e.device_type == DeviceType.PrivateUse1]
    return {e.key: round(e.self_device_time_total * 1000) for e in averages}


def to_ns(ps: int) -> int:
    return (ps + PS_PER_NS // 2) // PS_PER_NS


def exported(prof, tmp_path) -> dict:
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    return json.loads((tmp_path / "trace.json").read_text(), parse_float=Decimal)


def kernels_of(trace: dict) -> list[dict]:
    return [e for e in trace["traceEvents"] if e.get("cat") in ("kernel", "gpu_memcpy")]


def offload() -> Device:
    """Matrix products on the optical part, everything else on its host."""
    return Offload(sd.device("optical"), ["matmul"])


def check_equal_per_operator(step) -> None:
    """Own device time of every ATen operator is its time in a recording of the same, to the nanosecond."""
    step()
    with torch.simacc.record() as rec:
        step()
    with profile() as prof:
        step()
    expected, host = recorded_ps(rec.run), self_ns(prof)
    total = sum(host.values())
    for name, ps in expected.items():
        if name not in LAUNCHED_BY and name != "aten.copy_":
            assert host.pop("aten::" + name.removeprefix("aten."), 0) == to_ns(ps), name
    copies = sum(ps for name, ps in expected.items() if name in LAUNCHED_BY or name == "aten.copy_")
    assert abs(sum(host.values()) - to_ns(copies)) <= 1  # two operators, each rounded
    assert set(host) <= {name for names in LAUNCHED_BY.values() for name in names}
    # The sum over operators is the run's: each was rounded to the nearest nanosecond.
    assert abs(total - sum(expected.values()) / PS_PER_NS) <= len(expected) / 2
    assert len(expected) > 5


@pytest.mark.parametrize("machine", ["h100", "edge-npu", offload], ids=["roofline", "tiles", "offload"])
def test_device_time_per_operator_is_the_recordings(machine):
    torch.simacc.configure(machine() if callable(machine) else machine)
    check_equal_per_operator(train_step())


def encoder_step():
    embedding = nn.Embedding(10, 32).to("simacc")
    layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), 2).to("simacc")
    tokens = torch.zeros(4, 7, dtype=torch.long, device="simacc")
    return lambda: layers(embedding(tokens)).sum().backward()


def recurrent_step():
    layer, x = nn.LSTM(16, 32, 2, batch_first=True).to("simacc"), torch.ones(4, 7, 16)
    return lambda: layer(x.to("simacc"))[0].sum().backward()


def odd_step():
    x = torch.rand(64, 64, device="simacc")

    def step() -> None:
        with torch.autocast("simacc"):
            (x @ x.t()).softmax(-1)
        x[x > 0.5].cumsum(0)
        torch.where(x > 0.5, x, 0.0).nonzero()
        torch.cat([x, x.t()]).std()
        x.t().contiguous().clone().normal_()
        torch.fft.fft(x)
        torch.einsum("ij,kj->ik", x, x).cpu().to("simacc", torch.float16)

    return step


@pytest.mark.parametrize("program", [encoder_step, recurrent_step, odd_step], ids=lambda f: f.__name__)
def test_other_programs_are_attributed_alike(program):
    check_equal_per_operator(program())


def test_kernels_of_an_operator_sum_to_its_total_and_carry_picoseconds(tmp_path):
    x = torch.ones(64, 64, device="simacc")
    with torch.simacc.record() as rec, profile() as prof:
        for _ in range(7):
            x.relu()
    each = int(rec.run.busy_ps[0])
    # 2 x 16,384 bytes at 3.35 TB/s x 0.80, rounded up: 12,226.9 ps. Seven are 85,589 ps; seven times 12 ns would be 84.
    assert each == 12_227
    assert self_ns(prof) == {"aten::relu": 86}
    assert kernel_ns(prof) == {"aten.relu": 86}
    kernels = kernels_of(exported(prof, tmp_path))
    assert [e["args"]["duration_ps"] for e in kernels] == [each] * 7
    assert {e["dur"] for e in kernels} == {Decimal("0.012"), Decimal("0.013")}
    for one, following in pairwise(kernels):
        assert one["ts"] + one["dur"] <= following["ts"]  # a viewer drops what overlaps, be it by a nanosecond


def test_total_time_of_an_operator_holds_its_parts():
    model, x = nn.Linear(64, 64).to("simacc"), torch.ones(64, 64, device="simacc")
    with profile() as prof, record_function("block"):
        model(x)
    total = {e.key: round(e.device_time_total * 1000) for e in prof.key_averages() if e.device_time_total}
    assert total["block"] == total["aten::linear"] == total["aten::addmm"] == total["aten.addmm"] > 0


def test_an_operator_that_calls_one_of_its_name_keeps_its_kernels():
    x = torch.ones(64, 64, device="simacc")
    with torch.simacc.record() as rec, profile() as prof:
        x.sum()  # the CPU's kernels of both call the operator's other form
        x.sort()
    nested = [e.name() for e in prof.profiler.kineto_results.events() if e.name() in ("aten::sum", "aten::sort")]
    assert nested == ["aten::sum", "aten::sum", "aten::sort", "aten::sort"]
    assert self_ns(prof) == {"aten::" + n.removeprefix("aten."): to_ns(ps) for n, ps in recorded_ps(rec.run).items()}


def test_a_copy_on_the_device_is_the_copys():
    x, y = torch.ones(64, 64, device="simacc"), torch.zeros(64, 64, device="simacc")
    with profile() as prof:
        y.copy_(x)
    assert self_ns(prof) == {"aten::copy_": 12}  # 2 x 16,384 bytes, as above


def test_only_what_ran_under_the_profiler_counts():
    x = torch.ones(64, 64, device="simacc")
    x.relu()
    with profile() as prof:
        x.exp()
    x.tanh()
    with profile() as again:
        x.sin()
    assert set(kernel_ns(prof)) == {"aten.exp"}
    assert set(kernel_ns(again)) == {"aten.sin"}
    x.relu()
    torch.simacc.time_s()
    assert PROCESS.root.capture is None
    assert PROCESS.captures == []


def test_recordings_inside_around_and_across():
    x = torch.ones(64, 64, device="simacc")
    with profile() as prof:
        x.relu()
        with torch.simacc.record() as rec:
            x.exp()
        x.tanh()
    assert set(kernel_ns(prof)) == {"aten.relu", "aten.exp", "aten.tanh"}
    assert [op.name for op in rec.trace.ops if op.name.startswith("aten")] == ["aten.exp"]

    with torch.simacc.record() as rec:
        x.relu()
        with profile() as prof:
            x.exp()
        x.tanh()
    assert set(kernel_ns(prof)) == {"aten.exp"}
    assert PROCESS.device.run(rec.trace) == rec.run

    prof = profile()
    with torch.simacc.record() as rec:
        x.relu()
        prof.start()
        x.exp()
    x.tanh()
    prof.stop()
    assert kernel_ns(prof) == {"aten.exp": to_ns(recorded_ps(rec.run)["aten.exp"]), "aten.tanh": 12}

    prof = profile()
    prof.start()
    x.relu()
    with torch.simacc.record() as rec:
        x.exp()
        prof.stop()
        x.tanh()
    assert set(kernel_ns(prof)) == {"aten.relu", "aten.exp"}
    x.sin()
    assert [op.name for op in rec.trace.ops if op.name.startswith("aten")] == ["aten.exp", "aten.tanh"]


@pytest.mark.filterwarnings("ignore:.*Profiler clears events at the end of each cycle:UserWarning")
def test_a_schedule_begins_and_ends_inside_recordings():
    w, cycles = torch.ones(64, 64, device="simacc", requires_grad=True), []
    in_turn = schedule(wait=1, warmup=1, active=2)
    with profile(schedule=in_turn, on_trace_ready=lambda prof: cycles.append(kernel_ns(prof))) as prof:
        for _ in range(8):
            with torch.simacc.record() as rec:
                (w * w).sum().backward()
                prof.step()
            assert PROCESS.device.run(rec.trace) == rec.run
    expected = {name: to_ns(2 * ps) for name, ps in recorded_ps(rec.run).items()}
    assert cycles == [expected, expected]


def test_the_device_row_of_a_trace_keeps_the_simulated_clock(tmp_path):
    x = torch.ones(64, 64, device="simacc")
    x.relu()
    with profile() as prof:
        before_ps = round(torch.simacc.time_s() * 1e12)
        x.exp()
        with torch.simacc.record():
            x.tanh()
        x.sin()
    trace = exported(prof, tmp_path)
    events, kernels = trace["traceEvents"], kernels_of(trace)
    [clock] = trace["simacc_clocks"]
    assert {clock[k] for k in ("device", "queue", "machine")} == {0, "queue", "h100"}
    assert [e["name"] for e in kernels] == ["aten.exp", "aten.tanh", "aten.sin"]
    assert kernels[0]["args"]["start_ps"] == before_ps
    for kernel in kernels:
        host_ns = int(kernel["ts"] * 1000) + trace["baseTimeNanoseconds"]
        simulated_ns = kernel["args"]["start_ps"] // PS_PER_NS
        assert 0 <= host_ns - simulated_ns - clock["host_minus_simulated_ns"] <= 1
    names = {(e["name"], e["pid"]): e["args"] for e in events if e["ph"] == "M"}
    assert names["process_name", 0] == {"name": "simacc:0 (h100, simulated time)"}
    assert names["process_labels", 0] == {"labels": "simacc:0"}
    assert names["thread_name", 0] == {"name": "queue"}
    assert names["process_name", os.getpid()]["name"] != names["process_name", 0]["name"]
    operators = {e["args"]["External id"]: e["name"] for e in events if e.get("cat") == "cpu_op"}
    launched = [operators[e["args"]["External id"]] for e in kernels]
    assert launched == ["aten::exp", "aten::tanh", "aten::sin"]


def test_the_simulated_clock_is_laid_where_the_profiler_started(tmp_path):
    torch.simacc.configure("h100", dram_bandwidth_bytes_per_s="1 MB/s")
    x = torch.ones(64, 64, device="simacc")
    for _ in range(100):
        x.relu()  # 41 ms each
    with profile() as prof:
        x.exp()
    trace = exported(prof, tmp_path)
    [kernel] = kernels_of(trace)
    [operator] = [e for e in trace["traceEvents"] if e["name"] == "aten::exp"]
    assert kernel["args"]["start_ps"] > 4 * 10**12
    assert kernel["ts"] < operator["ts"]


def test_on_tiles_a_kernel_is_the_computing_frontiers_advance(tmp_path):
    torch.simacc.configure("edge-npu")
    x = torch.ones(256, 256, device="simacc")
    torch.simacc.synchronize()
    with torch.simacc.record() as rec, profile() as prof:
        x @ x
        x.relu()
        torch.simacc.synchronize()  # what comes next loads after the stores: its stall is its own
        x @ x
    kernels = kernels_of(exported(prof, tmp_path))
    busy = [int(ps) for ps in rec.run.busy_ps if ps]
    assert [e["args"]["duration_ps"] for e in kernels] == busy
    starts = [e["args"]["start_ps"] - kernels[0]["args"]["start_ps"] for e in kernels]
    assert starts == [0, busy[0], busy[0] + busy[1]]  # one after the other, though tiles load before


def test_copies_are_of_the_link(tmp_path):
    x = torch.ones(64, 64)
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as prof:
        x.to("simacc").relu().cpu()
    kernels = kernels_of(exported(prof, tmp_path))
    assert [(e["cat"], e["name"], e["args"]["bytes"]) for e in kernels] == [
        ("gpu_memcpy", "simacc.copy_to_device", 64 * 64 * 4),
        ("kernel", "aten.relu", 2 * 64 * 64 * 4),
        ("gpu_memcpy", "simacc.copy_to_host", 64 * 64 * 4),
    ]


def test_activities_choose_what_is_there():
    x = torch.ones(64, 64, device="simacc")

    def seen(*activities) -> tuple[set[str], set[str]]:
        with profile(activities=list(activities)) as prof:
            x.to("cpu").to("simacc").relu()
        host = {e.key for e in prof.key_averages() if e.device_type == DeviceType.CPU}
        return {"aten::relu"} & host, set(kernel_ns(prof))

    copies = {"simacc.copy_to_device", "simacc.copy_to_host"}
    assert seen(ProfilerActivity.PrivateUse1) == (set(), {"aten.relu"} | copies)
    assert seen(ProfilerActivity.CPU) == ({"aten::relu"}, set())
    assert seen(ProfilerActivity.CPU, {ProfilerActivity.PrivateUse1: ["GPU_MEMCPY"]}) == ({"aten::relu"}, copies)
    assert seen(ProfilerActivity.CPU, {ProfilerActivity.PrivateUse1: []}) == ({"aten::relu"}, set())


@pytest.mark.filterwarnings("ignore:.*Profiler clears events at the end of each cycle:UserWarning")
def test_a_schedule_profiles_its_active_steps():
    x, cycles = torch.ones(64, 64, device="simacc"), []

    def ready(prof) -> None:
        cycles.append({e.key: (e.count, round(e.device_time_total * 1000)) for e in prof.key_averages()})

    with profile(schedule=schedule(wait=1, warmup=1, active=2, repeat=2), on_trace_ready=ready) as prof:
        for _ in range(10):
            x.relu()
            prof.step()
    assert len(cycles) == 2
    for cycle in cycles:
        assert cycle["aten.relu"] == (2, 24)  # 2 x 12,227 ps
        assert cycle["aten::relu"] == (2, 24)
        assert cycle["ProfilerStep*"] == (2, 24)


def test_another_threads_kernels_are_there_without_an_operator():
    x = torch.ones(64, 64, device="simacc")

    def work() -> None:
        x.exp()
        with torch.simacc.record() as rec:
            x.tanh()
        assert len(rec.trace)

    with profile() as prof:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        x.relu()
    assert self_ns(prof) == {"aten::relu": 12}  # as everywhere in PyTorch, a profiler sees its own thread's operators
    assert set(kernel_ns(prof)) == {"aten.relu", "aten.exp", "aten.tanh"}


def test_backward_belongs_to_autograds_operators():
    w = torch.ones(64, 64, device="simacc", requires_grad=True)
    loss = (w @ w).sum()
    with torch.simacc.record() as rec:
        loss.backward(retain_graph=True)
    w.grad = None
    with profile() as prof:
        loss.backward()
    total = {e.key: round(e.device_time_total * 1000) for e in prof.key_averages()}
    products = to_ns(recorded_ps(rec.run)["aten.mm"])
    assert self_ns(prof)["aten::mm"] == total["MmBackward0"] == products > 0


def test_a_compiled_graph_is_profiled():
    torch._dynamo.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).to("simacc")
        compiled = torch.compile(model, backend="simacc")
        x = torch.ones(3, 8, device="simacc")
        with torch.no_grad():
            compiled(x)
            with torch.simacc.record(scopes=False) as rec:
                compiled(x)
            with profile() as prof:
                compiled(x)
    expected = {name: to_ns(ps) for name, ps in recorded_ps(rec.run).items()}
    assert kernel_ns(prof) == expected
    assert set(expected) == {"aten.addmm", "aten.relu"}
    assert {"aten::" + name.removeprefix("aten."): ns for name, ns in expected.items() if ns} == self_ns(prof)
    torch._dynamo.reset()


def test_a_compiled_graph_on_the_cpu_is_there_where_a_recording_has_it():
    torch._dynamo.reset()
    model = torch.compile(nn.Linear(64, 64), backend="simacc")
    x = torch.ones(3, 64)
    with torch.no_grad():
        model(x)
        with torch.simacc.record(scopes=False) as rec, profile() as prof:
            model(x)
    assert kernel_ns(prof) == {name: to_ns(ps) for name, ps in recorded_ps(rec.run).items()} != {}
    torch._dynamo.reset()


def test_configuring_another_machine_starts_another_clock(tmp_path):
    x = torch.ones(64, 64, device="simacc")
    with profile() as prof:
        x.relu()
        torch.simacc.configure("edge-npu")
        x.relu()
    trace = exported(prof, tmp_path)
    assert [c["machine"] for c in trace["simacc_clocks"]] == ["h100", "edge-npu"]
    first, second = kernels_of(trace)
    assert first["args"]["duration_ps"] == 12_227 < second["args"]["duration_ps"]
    assert second["args"]["start_ps"] == 0
    assert first["ts"] + first["dur"] <= second["ts"]
    assert first["tid"] != second["tid"]


@pytest.mark.parametrize("machine", ["h100", "edge-npu"])
def test_each_device_is_a_process_of_its_own(machine, tmp_path):
    torch.simacc.configure(machine, devices=2)
    one, two = torch.ones(256, 256, device="simacc:0"), torch.ones(256, 256, device="simacc:1")
    with torch.simacc.record() as rec, profile(profile_memory=True) as prof:
        one @ one
        kept = two @ two
        two.relu()
    trace = exported(prof, tmp_path)
    busy = [(int(d), int(ps)) for d, ps in zip(rec.run.device_index, rec.run.busy_ps, strict=True) if ps]
    assert sorted((e["pid"], e["args"]["duration_ps"]) for e in kernels_of(trace)) == sorted(busy)
    assert [(c["device"], c["queue"]) for c in trace["simacc_clocks"]] == [(0, "queue"), (1, "queue")]
    labels = {e["pid"]: e["args"]["labels"] for e in trace["traceEvents"] if e["name"] == "process_labels"}
    assert (labels[0], labels[1]) == ("simacc:0", "simacc:1")
    first = min(e["ts"] for e in kernels_of(trace) if e["pid"] == 0)
    assert first == min(e["ts"] for e in kernels_of(trace) if e["pid"] == 1)  # side by side
    held = [
        e.device_index() for e in prof.profiler.kineto_results.events() if e.name() == "[memory]" and e.nbytes() > 0
    ]
    assert {0, 1} <= set(held)
    del kept


def test_stacks_shapes_and_flops():
    x = torch.ones(64, 64, device="simacc")
    with profile(with_stack=True, record_shapes=True, with_flops=True) as prof:
        y = x @ x
    del y
    [product] = [e for e in prof.key_averages(group_by_input_shape=True) if e.key == "aten::mm"]
    assert product.input_shapes == [[64, 64], [64, 64]]
    assert product.flops == 2 * 64**3
    # Nothing of the device's own runs in Python between the program's lines; PyTorch synchronizes at the end.
    ours = {e.key for e in prof.key_averages() if "simdevice/" in e.key}
    assert not [key for key in ours if "/session.py" in key or "/profiler.py" in key]


@pytest.mark.parametrize("name", ["self_simacc_time_total", "simacc_time_total", "device_time_total"])
def test_tables_sort_by_the_devices_name(name):
    x = torch.ones(256, 256, device="simacc")
    with profile(profile_memory=True) as prof:
        x.relu()
        x @ x
    table = prof.key_averages().table(sort_by=name)
    header = next(line for line in table.splitlines() if "Name" in line)
    for column in ("Self SIMACC", "Self SIMACC %", "SIMACC total", "SIMACC time avg", "SIMACC Mem", "Self SIMACC Mem"):
        assert column in header
    rows = [line.split()[0] for line in table.splitlines() if "aten" in line]
    assert rows.index("aten.mm") < rows.index("aten.relu")
    assert "Self SIMACC time total" in table
    with pytest.raises(AttributeError, match="simacc_luck"):
        prof.key_averages().table(sort_by="simacc_luck")


def test_stacks_are_written_by_the_devices_name(tmp_path):
    x = torch.ones(2048, 2048, device="simacc")
    with profile(with_stack=True) as prof:
        x.relu()
    prof.export_stacks(str(tmp_path / "stacks"), "self_simacc_time_total")
    assert (tmp_path / "stacks").read_text().endswith(" 12\n") or (tmp_path / "stacks").read_text() == ""


def test_the_older_profilers_device_is_the_newers():
    x = torch.ones(64, 64, device="simacc")
    with torch.autograd.profiler.profile(use_device="simacc") as prof:
        x.relu()
    assert self_ns(prof) == {"aten::relu": 12}
    assert kernel_ns(prof) == {"aten.relu": 12}


def memory(prof, column: str) -> dict[str, int]:
    return {e.key: value for e in prof.key_averages() if (value := getattr(e, column))}


def test_memory_is_the_devices():
    x = torch.ones(64, 64, device="simacc")
    y = torch.ones(64, 64, device="simacc")
    with profile(profile_memory=True) as prof:
        z = x.relu()
        w = torch.empty(32, device="simacc")
        del y, z
    n = 64 * 64 * 4
    assert memory(prof, "self_device_memory_usage") == {"aten::relu": n, "aten::empty": 128, "[memory]": -2 * n}
    # What a kernel allocates is the host's until the device takes it: none of it stays.
    assert memory(prof, "cpu_memory_usage") == {"aten::clamp_min": n}
    events = [e for e in prof.profiler.kineto_results.events() if e.name() == "[memory]"]
    by_device = Counter()
    for event in events:
        by_device[event.device_type()] += event.nbytes()
    assert by_device == {DeviceType.PrivateUse1: n + 128 - 2 * n, DeviceType.CPU: 0}
    del w


def test_memory_follows_a_resize_and_a_failure():
    torch.simacc.configure("h100", memory_capacity_bytes="1 MiB")
    x = torch.empty(16, device="simacc")
    with profile(profile_memory=True) as prof:
        torch.add(torch.ones(64, device="simacc"), 1, out=x.resize_(0))
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(1 << 20, device="simacc")
    assert sum(memory(prof, "self_device_memory_usage").values()) == 64 * 4 - 16 * 4
    assert "[OutOfMemory]" in {e.key for e in prof.key_averages()}


def test_an_empty_profile_says_nothing(tmp_path):
    with profile() as prof:
        pass
    assert prof.key_averages().table() == ""
    trace = exported(prof, tmp_path)
    assert "simacc_clocks" not in trace
    assert kernels_of(trace) == []


def test_rows_say_what_launched_them_only_under_a_profiler():
    x = torch.ones(4, device="simacc")
    root = PROCESS.root.recorder
    with profile():
        x.relu()
    x.exp()
    assert root.drain()[-1] is None
    with profile() as prof:
        x.relu()
        PROCESS.root.flush()
        x.relu()
    assert [e.count for e in prof.key_averages() if e.key == "aten.relu"] == [2]


def test_a_failure_of_the_simulator_leaves_the_rest_of_a_profile(monkeypatch):
    def fails(captures) -> None:
        raise RuntimeError("no times today")

    x, seen = torch.ones(64, 64, device="simacc"), []
    monkeypatch.setattr(sys, "unraisablehook", seen.append)
    with monkeypatch.context() as within:
        within.setattr(profiler, "_profile", fails)
        with profile() as prof:
            x.relu()
    assert [str(u.exc_value) for u in seen] == ["no times today"]
    assert "aten::relu" in {e.key for e in prof.key_averages()}
    assert kernel_ns(prof) == {}
    with profile() as prof:
        x.exp()
    assert kernel_ns(prof) == {"aten.exp": 12}


CPU_PROGRAM = """
import json, sys, torch
from torch.profiler import profile
x = torch.ones(64, 64, requires_grad=True)
with profile(profile_memory=True, record_shapes=True) as prof:
    (x @ x).sum().backward()
header = next(line for line in prof.key_averages().table().splitlines() if "Name" in line)
prof.export_chrome_trace(sys.argv[1])
trace = json.load(open(sys.argv[1]))
kinds = sorted({(e["ph"], e.get("cat", ""), e["name"] if e["ph"] == "M" else "") for e in trace["traceEvents"]})
print(header.split(), sorted(e.key for e in prof.key_averages()), kinds, sorted(trace), sep="\\n")
if hasattr(torch, "simacc"):
    assert not torch.simacc.is_initialized()
"""


def test_a_program_of_the_cpu_prints_as_without_the_device(tmp_path):
    def printed(autoload: str) -> str:
        environment = os.environ | {"TORCH_DEVICE_BACKEND_AUTOLOAD": autoload}
        command = [sys.executable, "-W", "error", "-c", CPU_PROGRAM, str(tmp_path / autoload)]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    assert printed("1") == printed("0") != ""


@pytest.mark.parametrize("patch", profiler_tables.PATCHES.patches, ids=lambda p: p.key)
def test_patches_of_the_profiler_stand_from_import_on(patch):
    assert patch._read().__wrapped__ is not None
