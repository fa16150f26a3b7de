"""`torch.compile(..., backend="simacc")`: eager's results, the trace's time, on CPU and on simacc tensors."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

import simdevice as sd
from simdevice.torch_backend import compile_backend

pytestmark = [
    # PyTorch warns that a hook also sees the compiled module itself; recordings don't mind
    pytest.mark.filterwarnings("ignore:.*global hooks on modules.*:UserWarning"),
    # and looking into an optimizer, Dynamo calls what PyTorch deprecated
    pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning"),
]


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    compile_backend.reset()
    yield
    torch._dynamo.reset()


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


def batch(n: int = 3) -> torch.Tensor:
    return torch.arange(8.0 * n).reshape(n, 8) / 10


def test_dynamo_finds_the_backend_by_its_name() -> None:
    assert "simacc" in torch._dynamo.list_backends()


@pytest.mark.parametrize("device", ["h100", "edge-npu"])
def test_on_cpu_tensors_a_run_gives_eagers_result_and_the_traces_time(device: str) -> None:
    model = network()
    compiled = torch.compile(model, backend="simacc", options={"device": device})
    with torch.no_grad():
        before = torch.simacc.time_s()  # type: ignore[attr-defined]
        result = compiled(batch())
        passed = torch.simacc.time_s() - before  # type: ignore[attr-defined]
    assert torch.equal(result, model(batch()))
    expected = sd.device(device).run(sd.trace(model, batch(), frontend="compile")).time_s
    assert compile_backend.statistics() == {"graphs": 1, "runs": 1, "graph_breaks": {}, "time_s": expected}
    assert passed == pytest.approx(expected, rel=1e-9)


def test_every_run_adds_its_time() -> None:
    compiled = torch.compile(network(), backend="simacc")
    with torch.no_grad():
        compiled(batch())
        once = compile_backend.statistics()["time_s"]
        for _ in range(4):
            compiled(batch())
    assert compile_backend.statistics()["time_s"] == pytest.approx(5 * once)
    assert compile_backend.statistics()["runs"] == 5


def test_without_options_it_is_the_configured_device() -> None:
    torch.simacc.configure("edge-npu")  # type: ignore[attr-defined]
    model = network()
    with torch.no_grad():
        torch.compile(model, backend="simacc")(batch())
    expected = sd.device("edge-npu").run(sd.trace(model, batch(), frontend="compile")).time_s
    assert compile_backend.statistics()["time_s"] == expected


def test_options_are_the_machines_fields() -> None:
    times = []
    for bandwidth in ("25.6 GB/s", "51.2 GB/s"):
        compile_backend.reset()
        torch._dynamo.reset()
        options = {"device": "edge-npu", "engine": "python", "dram_bandwidth_bytes_per_s": bandwidth}
        with torch.no_grad():
            torch.compile(network(), backend="simacc", options=options)(batch())
        times.append(compile_backend.statistics()["time_s"])
    assert times[1] < times[0]


@pytest.mark.parametrize("device", ["cpu", "simacc"])
def test_training_is_eagers_step_for_step(device: str) -> None:
    ours, theirs = network().to(device), network()
    compiled = torch.compile(ours, backend="simacc")
    optimizers = [torch.optim.Adam(m.parameters(), lr=0.01) for m in (ours, theirs)]
    for _ in range(3):
        losses = []
        for model, optimizer, x in ((compiled, optimizers[0], batch().to(device)), (theirs, optimizers[1], batch())):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach().cpu())
        assert torch.equal(*losses)
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(mine.detach().cpu(), other.detach())
    # a forward and a backward graph at each step
    assert compile_backend.statistics()["runs"] == 6
    assert compile_backend.statistics()["graph_breaks"] == {}


def test_training_with_batches_of_any_size_is_eagers() -> None:
    """A dynamic graph with a batch norm makes Dynamo start over: that is no failure, and the graph counts once."""

    def losses(*, dynamic: bool) -> list[float]:
        torch.manual_seed(1)
        net = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Linear(16, 4))
        run = torch.compile(net, backend="simacc", dynamic=True) if dynamic else net
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        found = []
        for n in (3, 5, 4):
            optimizer.zero_grad()
            loss = run(batch(n)).square().mean()
            loss.backward()
            optimizer.step()
            found.append(loss.item())
        return found

    assert losses(dynamic=True) == losses(dynamic=False)
    assert compile_backend.statistics()["graphs"] == 1


def test_a_training_steps_time_is_that_of_its_graphs() -> None:
    model = network()

    def loss(x: torch.Tensor) -> torch.Tensor:
        return model(x).square().mean()  # type: ignore[no-any-return]

    torch.compile(loss, backend="simacc", options={"device": "h100"})(batch()).backward()
    model.zero_grad()  # else autograd adds to what is there
    step = sd.trace(lambda x: loss(x).backward(), batch(), frontend="dispatch")
    unlike = {"aten.ones_like"}  # autograd starts from it, before the backward graph
    expected = sum(sd.device("h100").run(step).busy_ps[i] for i, op in enumerate(step.ops) if op.name not in unlike)
    assert compile_backend.statistics()["time_s"] * 1e12 == pytest.approx(float(expected))


def test_other_sizes_have_other_times() -> None:
    model = network()
    compiled = torch.compile(model, backend="simacc", dynamic=True, options={"device": "h100"})
    with torch.no_grad():
        for n in (3, 5, 300):
            compile_backend.reset()
            assert torch.equal(compiled(batch(n)), model(batch(n)))
            expected = sd.device("h100").run(sd.trace(model, batch(n))).time_s
            assert compile_backend.statistics()["time_s"] == pytest.approx(expected)


def test_breaks_are_counted_with_their_reasons() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        y = x.relu()
        torch._dynamo.graph_break()
        return y * 2

    torch.compile(program, backend="simacc")(batch())
    found = compile_backend.statistics()
    assert (found["graphs"], found["runs"]) == (2, 2)
    assert [reason for reason in found["graph_breaks"] if "graph_break()" in reason]


@pytest.mark.parametrize("device", ["h100", "edge-npu"])
def test_inside_a_recording_a_graph_on_cpu_tensors_is_operators_of_the_block(device: str) -> None:
    torch.simacc.configure(device)  # type: ignore[attr-defined]
    model = network()
    compiled = torch.compile(model, backend="simacc")
    with torch.no_grad(), torch.simacc.record() as rec:  # type: ignore[attr-defined]
        first = compiled(batch())
        compiled(batch())
        (first.to("simacc") + 1).cpu()
    assert sd.device(device).run(rec.trace) == rec.run
    rows = [(op.name, op.scope) for op in rec.trace.ops if op.name.startswith("aten.")]
    assert rows == 2 * [("aten.addmm", "0"), ("aten.relu", "1"), ("aten.addmm", "2")] + [("aten.add", "")]
    assert rec.trace.weight_bytes == 2 * sd.trace(model, batch()).weight_bytes
    # each reads what the one before it wrote; the weights are the same storages in both runs
    products = [op for op in rec.trace.ops if op.name == "aten.addmm"]
    relu = next(op for op in rec.trace.ops if op.name == "aten.relu")
    assert relu.inputs[0].id == products[0].outputs[0].id
    assert products[1].inputs[1].id == relu.outputs[0].id
    assert [t.id for t in products[0].inputs if t.is_weight] == [t.id for t in products[2].inputs if t.is_weight]
    assert len({op.outputs[0].id for op in products}) == 4


def test_a_recorded_training_step_on_cpu_tensors_has_its_phases() -> None:
    compiled = torch.compile(network(), backend="simacc")
    with torch.simacc.record() as rec:  # type: ignore[attr-defined]
        compiled(batch()).sum().backward()
    assert sd.device("h100").run(rec.trace) == rec.run
    products = [(op.phase, op.scope) for op in rec.trace.ops if op.category == "matmul"]
    forward = [("forward", "0"), ("forward", "2")]
    assert products == [*forward, ("backward", "2"), ("backward", "2"), ("backward", "0")]


def test_across_a_break_a_storage_is_the_same() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        y = x.relu()
        torch._dynamo.graph_break()
        return y * 2

    compiled = torch.compile(program, backend="simacc")
    with torch.simacc.record() as rec:  # type: ignore[attr-defined]
        compiled(batch())
    relu, product = (op for op in rec.trace.ops if op.category != "sync")
    assert product.inputs[0].id == relu.outputs[0].id


def test_a_machine_of_its_own_is_no_part_of_a_recording() -> None:
    compiled = torch.compile(network(), backend="simacc", options={"device": "edge-npu"})
    with torch.no_grad(), torch.simacc.record() as rec:  # type: ignore[attr-defined]
        compiled(batch())
    assert [op.category for op in rec.trace.ops] == ["sync"]
    assert compile_backend.statistics()["time_s"] > 0


def test_what_is_configured_when_a_graph_runs_counts() -> None:
    model = network()
    compiled = torch.compile(model, backend="simacc")
    for device in ("h100", "edge-npu"):
        torch.simacc.configure(device)  # type: ignore[attr-defined]
        compile_backend.reset()
        with torch.no_grad():
            compiled(batch())
        expected = sd.device(device).run(sd.trace(model, batch(), frontend="compile")).time_s
        assert compile_backend.statistics()["time_s"] == expected


# simacc tensors


@pytest.mark.parametrize("scopes", [True, False])
def test_on_simacc_tensors_a_graph_is_recorded_as_it_runs(scopes: bool) -> None:
    model, x = network().to("simacc"), batch().to("simacc")
    compiled = torch.compile(model, backend="simacc")
    with torch.no_grad(), torch.simacc.record(scopes=scopes) as rec:  # type: ignore[attr-defined]
        result = compiled(x)
    assert torch.equal(result.cpu(), network()(batch()))
    assert sd.device("h100").run(rec.trace) == rec.run
    rows = [(op.name, op.scope) for op in rec.trace.ops if op.category != "sync"]
    expected = [("aten.addmm", "0"), ("aten.relu", "1"), ("aten.addmm", "2")]
    assert rows == (expected if scopes else [(name, "") for name, _ in expected])
    assert rec.trace.weight_bytes == sd.trace(network(), batch()).weight_bytes
    assert compile_backend.statistics() == {"graphs": 1, "runs": 1, "graph_breaks": {}, "time_s": 0.0}


def test_backward_graphs_on_simacc_have_their_phase_and_scopes() -> None:
    compiled = torch.compile(network().to("simacc"), backend="simacc")
    with torch.simacc.record() as rec:  # type: ignore[attr-defined]
        compiled(batch().to("simacc")).sum().backward()
    products = [(op.phase, op.scope) for op in rec.trace.ops if op.category == "matmul"]
    forward = [("forward", "0"), ("forward", "2")]
    # the gradients of both operands of the last layer, of the first one's weight
    assert products == [*forward, ("backward", "2"), ("backward", "2"), ("backward", "0")]


@pytest.mark.filterwarnings("ignore:.*torch.jit.script_method.*:DeprecationWarning")  # Inductor's own imports
def test_without_a_backend_what_touches_simacc_comes_here_and_the_rest_stays_inductors() -> None:
    model = network().to("simacc")
    compiled = torch.compile(model)
    with torch.no_grad(), torch.simacc.record() as rec:  # type: ignore[attr-defined]
        result = compiled(batch().to("simacc"))
        made = torch.compile(lambda n: torch.ones(n, device="simacc") * 2)(3)
    assert torch.equal(result.cpu(), network()(batch()))
    assert made.tolist() == [2, 2, 2]
    rows = [(op.name, op.scope) for op in rec.trace.ops if op.name in ("aten.addmm", "aten.mul")]
    assert rows == [("aten.addmm", "0"), ("aten.addmm", "2"), ("aten.mul", "")]
    assert compile_backend.statistics()["graphs"] == 2


def test_options_for_simacc_tensors_are_refused() -> None:
    compiled = torch.compile(network().to("simacc"), backend="simacc", options={"device": "edge-npu"})
    with pytest.raises(Exception, match=r"simacc tensors run on the configured device: torch\.simacc\.configure"):
        compiled(batch().to("simacc"))


def test_a_wrong_device_is_said() -> None:
    with pytest.raises(Exception, match="unknown device 'edge-npuu': did you mean 'edge-npu'"):
        torch.compile(network(), backend="simacc", options={"device": "edge-npuu"})(batch())


def test_a_transformer_gives_eagers_logits() -> None:
    model: Any = sd.models.build(
        model_type="bert",
        device="cpu",
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        vocab_size=256,
    )
    tokens = sd.models.tokens(2, 12, device="cpu")
    with torch.no_grad():
        expected = model(tokens).logits
        for ours, x in ((model, tokens), (copy.deepcopy(model).to("simacc"), tokens.to("simacc"))):
            assert torch.equal(torch.compile(ours, backend="simacc")(x).logits.cpu(), expected)


def broken(x: torch.Tensor) -> torch.Tensor:
    y = x @ x
    print(end="")
    z = y @ y
    if z.sum() > 0:
        z = z + 1
    return z.exp()


@pytest.mark.parametrize("where", ["cpu", "simacc"])
def test_graphs_tell_their_operators_time_and_breaks(where: str) -> None:
    torch.simacc.configure("h100")  # type: ignore[attr-defined]
    compiled = torch.compile(broken, backend="simacc")
    x = torch.ones(64, 64, device=where)
    for _ in range(3):
        compiled(x)
    first, second, third = torch.simacc.compiled_graphs()  # type: ignore[attr-defined]
    assert [(g.operators, g.runs) for g in (first, second, third)] == [
        ({"forward": 1}, 3),  # the product
        ({"forward": 3}, 3),  # product, sum, comparison
        ({"forward": 2}, 3),  # addition, exponential
    ]
    # On a roofline nothing overlaps: a break costs what the host waits for. Reading a condition over PCIe 5 takes
    # 5 us + 1 byte / 64 GB/s = 15.625 ps, rounded up to 16 ps.
    assert first.break_reason.startswith("Failed to trace builtin operator")
    assert first.break_at.startswith("test_compile_backend.py:")
    assert first.break_time_s == 0
    assert (second.break_reason, second.break_time_s) == (
        "a branch on data",
        pytest.approx(3 * 5_000_016e-12, abs=1e-18),
    )
    assert third.break_reason == ""
    # 64 x 64 float32 in, in, out: 3 x 16,384 bytes at 2.68e12 B/s = 18,341 ps rounded up
    assert first.time_s == pytest.approx(3 * 18_341e-12, abs=1e-18)
    assert "graph 1/0: 3 forward operators, 3 runs" in str(second)


@pytest.mark.parametrize("where", ["cpu", "simacc"])
def test_a_break_on_a_tile_accelerator_costs_what_no_longer_overlaps(where: str) -> None:
    def chain(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        a = x @ x
        print(end="")
        return (y @ y) + a

    torch.simacc.configure("edge-npu")  # type: ignore[attr-defined]
    compiled = torch.compile(chain, backend="simacc")
    x, y = torch.ones(2, 128, 128, device=where)
    compiled(x, y)
    first, second = torch.simacc.compiled_graphs()  # type: ignore[attr-defined]
    whole = sd.device("edge-npu").run(sd.trace(lambda x, y: (y @ y) + x @ x, x.cpu(), y.cpu(), frontend="compile"))
    if where == "simacc":  # the queue goes on, whatever the host does between
        assert first.break_time_s == 0
    else:
        apart = first.time_s + second.time_s
        assert 0 < first.break_time_s < apart
        assert whole.time_s == pytest.approx(apart - first.break_time_s, rel=0.02)  # products in the other order


def test_graphs_of_a_training_step_count_both_phases() -> None:
    torch.simacc.configure("h100")  # type: ignore[attr-defined]
    model = network().to("simacc")
    compiled = torch.compile(model, backend="simacc")
    for _ in range(2):
        compiled(batch().to("simacc")).sum().backward()
    (graph,) = torch.simacc.compiled_graphs()  # type: ignore[attr-defined]
    assert graph.runs == 2
    assert set(graph.operators) == {"forward", "backward"}
    assert not graph.is_lower_bound
    torch._dynamo.reset()
    compile_backend.reset()
    assert torch.simacc.compiled_graphs() == ()  # type: ignore[attr-defined]
