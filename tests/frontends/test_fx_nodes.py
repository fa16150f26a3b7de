"""Which node of an FX graph each row came from: exported and compiled programs."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest
import torch
from small_models import small
from torch import nn

from simdevice.costs import Costs
from simdevice.frontends import Workload, compile, export
from simdevice.frontends.emitter import Emitter
from simdevice.frontends.fx import FxWalker
from simdevice.records import NodeMap, Trace


class Two(nn.Module):
    """Two equal layers, the second on the first part of a split."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a, b = torch.split(self.first(x), [2, 3])
        return self.second(b).relu() + a.sum()


def check(trace: Trace, nodes: NodeMap, *, between: int = 0) -> None:
    """The rows of all nodes are the trace's rows, each once, but `between` that are of none."""
    rows = [row for number in range(len(nodes)) for row in nodes.rows(number).tolist()]
    assert len(rows) == len(set(rows)) == len(trace) - between
    ops = list(trace.ops)
    for number, node in enumerate(nodes):
        for row in nodes.rows(number).tolist():
            name = ops[row].name
            assert node.type.startswith((name, name.removeprefix("higher_order."))), (name, node.type)
            assert ops[row].scope == node.scope
        assert (node.state in ("rows", "free")) or len(nodes.rows_within(number)) == 0


def test_an_exported_programs_nodes() -> None:
    trace, nodes = export.walk(Workload(Two(), (torch.ones(5, 8),)))
    check(trace, nodes)
    said = {n.name: (n.type, n.domain, n.scope, n.state) for n in nodes}
    assert said["addmm"] == ("aten.addmm.default", "aten", "first", "rows")
    assert said["addmm_1"] == ("aten.addmm.default", "aten", "second", "rows")
    assert said["getitem"] == ("getitem", "_operator", "", "free")
    assert said["permute"][3] == "free"
    # the two layers differ in their rows only: (5, 8) and (3, 8)
    rows = [nodes.rows(nodes.find(name)).tolist() for name in ("addmm", "addmm_1")]
    assert [trace.ops[r[0]].inputs[1].shape for r in rows] == [(5, 8), (3, 8)]
    assert nodes[nodes.find("addmm_1")].reads == ("p_second_bias", "getitem_1", "permute_1")


def test_each_part_of_a_split_is_its_own_tensor() -> None:
    def parts(x: torch.Tensor) -> torch.Tensor:
        low, high = torch.topk(x, 3)[0], torch.topk(x, 3)[1]
        return low * 2 + high

    trace, nodes = export.walk(Workload(parts, (torch.ones(4, 8),)))
    check(trace, nodes)
    (topk, other), (times,) = ([op for op in trace.ops if op.name == f"aten.{n}"] for n in ("topk", "mul"))
    (add,) = (op for op in trace.ops if op.name == "aten.add")
    assert [t.dtype for t in topk.outputs] == ["float32", "int64"]
    # values are output 0 of the first call, indices output 1 of the second: four storages, told apart
    assert len({t.id for op in (topk, other) for t in op.outputs}) == 4
    assert times.inputs[0].id == topk.outputs[0].id
    assert add.inputs[1].id == other.outputs[1].id


def test_of_a_conditional_the_branch_shown_has_rows() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda v: v @ v, lambda v: v + 1, (x,))  # type: ignore[no-any-return]

    trace, nodes = export.walk(Workload(program, (torch.ones(4, 4),)))
    check(trace, nodes)
    cond = nodes.find("cond")
    assert (nodes[cond].type, nodes[cond].domain, nodes[cond].state) == ("cond", "higher_order", "rows")
    inside = {n.type: n for n in nodes if n.parent == cond}
    assert {kind: n.state for kind, n in inside.items()} == {
        "aten.mm.default": "rows",
        "aten.add.Tensor": "body not walked",
    }
    assert {n.path for n in inside.values()} == {"cond/true_graph_0/", "cond/false_graph_0/"}
    (row,) = nodes.rows_within(cond).tolist()
    assert trace.ops[row].name == "aten.mm"


def test_a_graph_called_twice_has_its_nodes_twice() -> None:
    @torch.compiler.nested_compile_region
    def layer(x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x) + 1

    def program(x: torch.Tensor) -> torch.Tensor:
        return layer(layer(x))

    trace, nodes = compile.walk(Workload(program, (torch.ones(4, 4),)))
    check(trace, nodes)
    sines = [number for number, n in enumerate(nodes) if n.type == "aten.sin.default"]
    assert [nodes.rows(number).tolist() for number in sines] == [[0], [2]]
    assert len({nodes[number].parent for number in sines}) == 2


def test_a_compiled_programs_nodes_are_in_their_graphs() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(x @ x)
        torch._dynamo.graph_break()
        return y @ y

    trace, nodes = compile.walk(Workload(program, (torch.ones(4, 4),)))
    check(trace, nodes)
    assert [(n.path, n.name) for n in nodes if n.type == "aten.mm.default"] == [
        ("forward graph 0/", "mm"),
        ("forward graph 1/", "mm"),
    ]
    # both products are one signature: what tells them apart is beside it
    assert [op.name for op in trace.ops].count("aten.mm") == 2
    assert [s.name for s in trace.table.signatures].count("aten.mm") == 1
    assert nodes.owner[-1] == nodes.find("mm", "forward graph 1/")


def test_rows_between_graphs_are_of_no_node() -> None:
    model = nn.Linear(4, 4)

    def step(x: torch.Tensor) -> torch.Tensor:
        y = model(x)
        torch._dynamo.graph_break()
        y.sum().backward()
        return y

    trace, nodes = compile.walk(Workload(step, (torch.ones(2, 4),)))
    none = int((nodes.owner < 0).sum())
    assert 0 < none < len(trace)
    check(trace, nodes, between=none)
    assert any(n.path.startswith("backward graph") for n in nodes)
    phases = [op.phase for op in trace.ops]
    for number, node in enumerate(nodes):
        said = node.path.split(" ", 1)[0]
        assert {phases[row] for row in nodes.rows(number).tolist()} <= {said}


@pytest.mark.parametrize("front", [export, compile])
@pytest.mark.parametrize("name", ["gpt2", "cnn"])
def test_a_models_rows_are_those_of_its_nodes(front: Any, name: str) -> None:
    workload = small(name, "meta")
    trace, nodes = front.walk(workload)
    check(trace, nodes)
    plain = front.trace(workload, Costs())
    assert plain.rows == trace.rows
    assert len(plain.table) == len(trace.table)
    assert np.array_equal(np.sort(np.concatenate([nodes.rows(i) for i in range(len(nodes))])), np.arange(len(trace)))


def test_results_with_storages_of_arguments_have_each_its_own() -> None:
    graph = torch.fx.Graph()
    x, values, indices = (graph.placeholder(name) for name in ("x", "values", "indices"))
    topk = graph.call_function(torch.ops.aten.topk.values, (x, 3), {"values": values, "indices": indices})
    graph.output(tuple(graph.call_function(operator.getitem, (topk, i)) for i in (1, 0)))
    shapes = [torch.empty(4, 3, device="meta"), torch.empty(4, 3, dtype=torch.int64, device="meta")]
    topk.meta["val"] = tuple(shapes)
    emitter = Emitter(Costs())
    walker = FxWalker(emitter)
    inputs = [walker.fresh(torch.empty(4, 8, device="meta")), *map(walker.fresh, shapes)]
    results = walker.walk(torch.fx.GraphModule(torch.nn.Module(), graph), inputs)
    # 0 is x, 1 the values' and 2 the indices' storage; the graph returns them the other way round
    assert [r.storage for r in results] == [2, 1]
    assert [r.spec.dtype for r in results] == ["int64", "float32"]
    ((signature, storages, *_),) = emitter.calls()
    assert storages == (0, 1, 2)
    assert [t.dtype for t in signature.outputs] == ["float32", "int64"]
