from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import pytest
import torch
from small_models import NAMES, SCORES, arithmetic, lstm, small
from torch import nn
from torch.utils._pytree import tree_leaves

import simdevice as sd
from simdevice.errors import CaptureError, UnknownNameError
from simdevice.records import CATEGORIES, Trace
from simdevice.torch_backend import compile_backend

F = nn.functional

COPIES = {"aten.clone", "aten.lift_fresh_copy"}


def compiled(*args: Any, **kwargs: Any) -> Trace:
    return sd.trace(*args, frontend="compile", **kwargs)


@cache
def on_meta(name: str) -> Trace:
    return compiled(small(name, "meta"), flop_counter=True)


@pytest.mark.parametrize("name", NAMES)
def test_compile_and_dispatch_agree_on_products_and_weights(name: str) -> None:
    by_dispatch = sd.trace(small(name, "meta"), flop_counter=True)
    assert arithmetic(on_meta(name), SCORES[name]) == arithmetic(by_dispatch, SCORES[name])
    assert on_meta(name).origin.flop_counter == by_dispatch.origin.flop_counter
    assert on_meta(name).unknown() == {}
    assert on_meta(name).origin.notes == ("1 graph, no graph breaks",)


@pytest.mark.parametrize("attention", [None, "fused"])
@pytest.mark.parametrize("name", NAMES)
def test_on_a_cpu_they_agree_category_by_category(name: str, attention: str | None) -> None:
    workload = small(name, "cpu")
    by_dispatch, by_compile = (sd.trace(workload, frontend=f, attention=attention) for f in ("dispatch", "compile"))
    flops = [{c: t.flops_in(c) for c in CATEGORIES if t.flops_in(c)} for t in (by_dispatch, by_compile)]
    assert flops[0] == flops[1]
    assert by_dispatch.weight_bytes == by_compile.weight_bytes
    # AOTAutograd copies where eager hands on (dropout that is off)
    extra = {op.name for op in by_compile.ops if op.category == "movement"}
    assert extra - {op.name for op in by_dispatch.ops} <= COPIES


@pytest.mark.parametrize("name", [*NAMES, "lstm"])
def test_the_backend_gives_eagers_result_and_the_traces_time(name: str) -> None:
    workload = lstm("cpu") if name == "lstm" else small(name, "cpu")
    program: Any = workload.program
    torch._dynamo.reset()
    compile_backend.reset()
    with torch.no_grad():
        ours = torch.compile(program, backend="simacc", options={"device": "h100"})(*workload.args, **workload.kwargs)
        theirs = program(*workload.args, **workload.kwargs)
    for mine, other in zip(tree_leaves(_plain(ours)), tree_leaves(_plain(theirs)), strict=True):
        assert torch.equal(mine, other)
    seconds = compile_backend.statistics()["time_s"]
    if name == "lstm":  # Dynamo leaves recurrent layers to eager, and what runs between graphs adds no time
        assert seconds == 0
    else:
        assert seconds == sd.device("h100").run(compiled(workload)).time_s


def _plain(output: Any) -> Any:
    """The tensors of an output, a cache left out."""
    return [v for v in output.to_tuple() if isinstance(v, torch.Tensor)] if hasattr(output, "to_tuple") else output


def test_a_decode_step_keeps_its_cache() -> None:
    model = small("llama", "cpu").program
    assert isinstance(model, nn.Module)
    by_dispatch, by_compile = (
        sd.trace(model, decode=8, frontend=f, attention="fused") for f in ("dispatch", "compile")
    )
    assert (by_dispatch.flops, by_dispatch.weight_bytes) == (by_compile.flops, by_compile.weight_bytes)


def test_scopes_are_module_paths_as_dispatch_gives_them() -> None:
    traces = (sd.trace(small("llama", "meta")), on_meta("llama"))
    paths = [{op.scope for op in trace.ops if op.category == "matmul"} for trace in traces]
    assert "model.layers.1.mlp.down_proj" in paths[1]
    assert paths[0] == paths[1]
    assert {op.scope for op in compiled(nn.Linear(1, 1), torch.ones(1, 1), scopes=False).ops} == {""}


def test_what_dynamo_leaves_alone_is_recorded_as_it_runs() -> None:
    by_dispatch, by_compile = sd.trace(lstm("cpu")), compiled(lstm("cpu"))
    assert (by_dispatch.flops, by_dispatch.weight_bytes) == (by_compile.flops, by_compile.weight_bytes)
    (note,) = by_compile.origin.notes
    assert note.startswith("0 graphs, 1 graph break: ")


def breaking(x: torch.Tensor) -> torch.Tensor:
    y = x.relu()
    torch._dynamo.graph_break()
    z = y * 2
    return z @ z.T if z.sum() > 0 else z


def test_graphs_and_breaks_are_counted_with_their_reasons() -> None:
    trace = compiled(breaking, torch.ones(3, 4))
    names = Counter(op.name for op in trace.without_views().ops)
    assert names == Counter(op.name for op in sd.trace(breaking, torch.ones(3, 4)).without_views().ops)
    assert trace.flops == sd.trace(breaking, torch.ones(3, 4)).flops
    (note,) = trace.origin.notes
    assert note.startswith("3 graphs, 2 graph breaks: ")
    assert "torch._dynamo.graph_break()" in note


def test_a_storage_is_the_same_on_both_sides_of_a_break() -> None:
    ops = list(compiled(breaking, torch.ones(3, 4)).without_views().ops)
    relu, mul = (next(op for op in ops if op.name == f"aten.{n}") for n in ("relu", "mul"))
    assert relu.outputs[0].id == mul.inputs[0].id
    ids = [t.id for op in ops for t in (*op.inputs, *op.outputs)]
    assert min(ids) == 0
    assert max(ids) < 2 * len(set(ids))


def test_lifted_parameters_are_weights_whoever_owns_them() -> None:
    inner = nn.Linear(4, 3)
    free = nn.Parameter(torch.ones(3))

    def program(x: torch.Tensor) -> torch.Tensor:
        return inner(x) * free  # type: ignore[no-any-return]

    trace = compiled(program, torch.ones(2, 4))
    # 4 x 3 and 3 of the layer, 3 of the other
    assert trace.weight_bytes == 4 * (12 + 3 + 3)


def test_buffers_are_no_weights() -> None:
    trace = compiled(nn.BatchNorm1d(4).eval(), torch.ones(2, 4))
    assert trace.weight_bytes == 4 * (4 + 4)


def test_a_training_step_has_its_phases() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        return loss

    inputs = torch.randn(3, 8), torch.randn(3, 4)
    by_dispatch, by_compile = sd.trace(step, *inputs), compiled(step, *inputs)
    assert by_compile.flops == by_dispatch.flops
    assert by_compile.weight_bytes == by_dispatch.weight_bytes
    for phase in ("forward", "backward", "optimizer"):
        sums = [sum(op.flops or 0 for op in t.ops if op.phase == phase) for t in (by_dispatch, by_compile)]
        assert sums[0] == sums[1] > 0, phase
    scopes = [
        {op.scope for op in t.ops if op.phase == "backward" and op.category == "matmul"}
        for t in (by_dispatch, by_compile)
    ]
    assert scopes[0] == scopes[1] == {"0", "2"}


def test_a_mutated_input_is_written_in_the_graph() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x * 2

    ops = {op.name: op for op in compiled(program, torch.ones(3)).ops}
    # functionalised, then written back where it was
    assert ops["aten.copy_"].outputs[0].id == ops["aten.add"].inputs[0].id


def test_what_was_compiled_before_does_not_decide() -> None:
    first, second = compiled(F.relu, torch.ones(3)), compiled(F.relu, torch.ones(5))
    assert [t.ops[0].outputs[0].shape for t in (first, second)] == [(3,), (5,)]
    assert first.origin.notes == second.origin.notes == ("1 graph, no graph breaks",)


def test_a_program_that_meta_tensors_cannot_run_is_one_line() -> None:
    with pytest.raises(CaptureError, match=r"^torch\.compile can't follow this program \(.*\): try 'dispatch'$"):
        compiled(lambda x: x.sum().item() + 1, torch.ones(3, device="meta"))


def test_an_unknown_kind_of_fake_tensor_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="unknown kind of attention 'gpu'"):
        compiled(F.relu, torch.ones(3), attention="gpu")


def test_results_of_a_graph_are_read_by_the_next_one_each_as_its_own() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        first, second = torch.exp(x), torch.sin(x)
        torch._dynamo.graph_break()
        return torch.relu(first) + torch.neg(second)

    by_name = {op.name: op for op in compiled(program, torch.ones(4, 4)).ops}
    exp, sin, relu, neg = (by_name[f"aten.{name}"] for name in ("exp", "sin", "relu", "neg"))
    assert exp.outputs[0].id != sin.outputs[0].id
    assert relu.inputs[0].id == exp.outputs[0].id
    assert neg.inputs[0].id == sin.outputs[0].id
