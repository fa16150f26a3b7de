"""Two runs are equal when every time, count and byte is, and all that a row says: each changed alone is seen.

This equality is the oracle of `device.run(rec.trace) == rec.run`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from simdevice.costs import Costs
from simdevice.devices import get
from simdevice.devices.offload import Offload
from simdevice.records import PHASES, Cost, OpTable, Origin, Run, Signature, TensorSpec, Trace, TraceBuilder

X = TensorSpec((32, 32), "float32")
MM = Signature("aten.mm", (X, X), (X,))
ADD = Signature("aten.add", (X, X), (X,))


def program(*calls: Signature, first: int = 0, phase: int = 0, scope: str = "layer", cost: Any = None) -> Trace:
    builder = TraceBuilder(OpTable(cost or Costs()))
    for n, call in enumerate(calls):
        builder.add(call, [first + n, first + n + 1, first + n + 2], phase=phase, scope=builder.scope(scope))
    return builder.finish(Origin("test"))


def run(trace: Trace, device: str = "edge-npu", **overrides: object) -> Run:
    return get(device, **overrides).run(trace)


@pytest.fixture
def known() -> Run:
    return run(program(MM, ADD))


def test_how_a_table_numbers_its_signatures_does_not_count(known: Run) -> None:
    table = OpTable(Costs())
    for unused in (Signature("aten.relu", (X,), (X,)), ADD, MM):
        table.intern(unused)
    builder = TraceBuilder(table)
    for n, call in enumerate((MM, ADD)):
        builder.add(call, [n, n + 1, n + 2], scope=builder.scope("layer"))
    again = run(builder.finish(Origin("somewhere else")))
    assert again.trace.rows.signature.tolist() != known.trace.rows.signature.tolist()
    assert again == known


OTHER_PROGRAMS: dict[str, Callable[[], Trace]] = {
    # aten.add and aten.mul take the same time and move the same bytes
    "signature": lambda: program(MM, Signature("aten.mul", (X, X), (X,))),
    "phase": lambda: program(MM, ADD, phase=PHASES.index("backward")),
    "scope": lambda: program(MM, ADD, scope="other"),
    "storage": lambda: program(MM, ADD, first=7),
    "rows": lambda: program(MM, ADD, ADD),
    "dtype": lambda: program(MM, Signature("aten.add", (X, X), (TensorSpec((32, 32), "int32"),))),
}


@pytest.mark.parametrize("what", OTHER_PROGRAMS)
def test_a_row_that_says_something_else_is_seen(known: Run, what: str) -> None:
    assert run(OTHER_PROGRAMS[what]()) != known


COSTS: dict[str, Callable[[Cost], Cost]] = {
    "flops": lambda cost: replace(cost, flops=(cost.flops or 0) + 1),
    "bytes_read": lambda cost: replace(cost, bytes_read=cost.bytes_read + 1),
    "bytes_written": lambda cost: replace(cost, bytes_written=cost.bytes_written + 1),
    "weight_bytes": lambda cost: replace(cost, weight_bytes=1),
    "category": lambda cost: replace(cost, category="reduction"),
    "reason": lambda cost: replace(cost, reason="a guess"),
    "lane_ops": lambda cost: replace(cost, lane_ops=1024),  # as many as without
}


@pytest.mark.parametrize("what", COSTS)
def test_another_cost_is_seen_on_a_machine_that_takes_no_time(what: str) -> None:
    costs = Costs()

    def other(signature: Signature) -> Cost:
        cost = costs(signature)
        return COSTS[what](cost) if signature == ADD else cost

    assert run(program(MM, ADD), "null") == run(program(MM, ADD), "null")
    assert run(program(MM, ADD, cost=other), "null") != run(program(MM, ADD), "null")


COLUMNS = ("start_ps", "end_ps", "busy_ps", "bound", "side", "unit", "device_index")


@pytest.mark.parametrize("column", COLUMNS)
def test_each_column_counts(known: Run, column: str) -> None:
    changed = getattr(known, column).copy()
    changed[1] += 1
    assert replace(known, **{column: changed}) != known


def test_every_other_field_counts(known: Run) -> None:
    assert known.timeline is not None
    store_end = known.timeline.store_end.copy()
    store_end[-1] += 1
    for changes in (
        {"device": "another"},
        {"makespan_ps": known.makespan_ps + 1},
        {"bounds_ps": {**known.bounds_ps, "compute": 1}},
        {"bound_names": (*known.bound_names, "luck")},
        {"timeline": replace(known.timeline, store_end=store_end)},
        {"crossings": Offload("edge-npu", ["matmul"]).run(program(MM, ADD)).crossings},
    ):
        assert replace(known, **changes) != known, changes


def test_the_machine_counts_where_no_time_moves(known: Run) -> None:
    larger = run(program(MM, ADD), memory_capacity_bytes="9 GiB")
    assert larger.makespan_ps == known.makespan_ps
    assert larger != known


def test_every_machine_fills_every_field() -> None:
    trace = program(MM, ADD)
    copies = TraceBuilder(OpTable(Costs()))
    copies.add(Signature("simacc.copy_to_device", (), (X,)), [0])
    copies.add(Signature("aten.view", (X,), (X,)), [0, 0])
    for device in (get("edge-npu"), get("h100"), get("null"), Offload("edge-npu", ["matmul"])):
        made = device.run(trace)
        assert made.spec == device.spec
        assert all(len(getattr(made, column)) == 2 for column in COLUMNS)
        assert device.run(trace) == made
        link = device.run(copies.finish(Origin("test")))
        assert link.side.tolist()[0] == 2
        assert link.unit.tolist() == [3, 0]
    assert Offload("edge-npu", ["matmul"]).run(trace).side.tolist() == [0, 1]
    assert Offload("edge-npu", ["matmul"]).run(trace).unit.tolist() == [1, 4]
    assert get("edge-npu").run(trace).unit.tolist() == [1, 2]


def test_a_trace_from_a_file_gives_the_same_run(known: Run, tmp_path: Any) -> None:
    for name in ("t.json", "t.npz"):
        known.trace.save(tmp_path / name)
        assert run(Trace.load(tmp_path / name)) == known


def test_a_file_from_before_rules_stated_their_products_runs_as_now(known: Run) -> None:
    table = OpTable(Costs())
    for signature, cost in zip(known.trace.table.signatures, known.trace.table.costs, strict=True):
        table.append(signature, Cost(cost.category, cost.flops, cost.bytes_read, cost.bytes_written))
    old = run(Trace(table, known.trace.rows, known.trace.scopes))
    assert np.array_equal(old.end_ps, known.end_ps)
    assert old.tiles == known.tiles
