"""A trace's rows, totals and operators, from a few calls written by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from trace_strategies import traces

from simdevice.devices import get
from simdevice.records import Cost, OpTable, Origin, Rows, Signature, TensorSpec, Trace, TraceBuilder

F32 = TensorSpec((2, 3), "float32")
WEIGHT = TensorSpec((3, 4), "float32", is_weight=True)
OUT = TensorSpec((2, 4), "float32")

MM = Signature("aten.mm", (F32, WEIGHT), (OUT,))
VIEW = Signature("aten.t", (WEIGHT,), (TensorSpec((4, 3), "float32", True),))
ODD = Signature("mine.odd", (OUT,), (OUT,))

COSTS = {
    MM: Cost("matmul", 48, bytes_read=72, bytes_written=32, weight_bytes=48),
    VIEW: Cost("view", 0, 0, 0),
    ODD: Cost("unknown", None, 32, 32, reason="no cost rule"),
}


@pytest.fixture
def builder():
    return TraceBuilder(OpTable(COSTS.__getitem__))


@pytest.fixture
def trace(builder):
    layer = builder.scope("layer")
    builder.add(VIEW, [1, 1], scope=layer)
    builder.add(MM, [0, 1, 2], scope=layer)
    builder.add(MM, [0, 1, 3], scope=layer, phase=1)
    builder.add(ODD, [2, 4], phase=2)
    return builder.finish(Origin("test"))


def test_totals_are_sums_over_the_calls(trace):
    assert len(trace) == 4
    assert (trace.flops, trace.matmul_flops, trace.weight_bytes) == (96, 96, 96)
    # two products of 104 bytes, one unknown of 64
    assert (trace.bytes, trace.bytes_read, trace.bytes_written) == (272, 176, 96)


def test_an_unknown_operator_makes_totals_lower_bounds_and_is_named(trace):
    assert trace.is_lower_bound
    assert trace.unknown() == {"mine.odd": "no cost rule"}
    known = trace.select(trace.per_op("flops") >= 0)
    assert not known.is_lower_bound
    assert known.unknown() == {}


def test_at_a_prompt_a_trace_and_its_run_are_one_line(trace):
    assert repr(trace) == "<Trace: 4 operators, >= 96 FLOPs, 272 bytes, test>"
    assert repr(get("null").run(trace)) == "<Run on null: 0 s, 4 operators>"


def test_equal_calls_share_one_signature_and_are_costed_once():
    asked = []

    def cost_of(signature):
        asked.append(signature)
        return COSTS[signature]

    builder = TraceBuilder(OpTable(cost_of))
    for i in range(100):
        builder.add(Signature("aten.mm", (F32, WEIGHT), (OUT,)), [0, 1, i])
    trace = builder.finish(Origin("test"))
    assert asked == [MM]
    assert (len(trace), len(trace.table), trace.flops) == (100, 1, 4800)


def test_operators_are_assembled_on_demand(trace):
    one = trace.ops[1]
    assert (one.index, one.name, one.category, one.flops, one.bytes) == (1, "aten.mm", "matmul", 48, 104)
    assert [t.id for t in one.inputs] == [0, 1]
    assert [t.id for t in one.outputs] == [2]
    assert [t.is_weight for t in one.inputs] == [False, True]
    assert (one.phase, one.scope) == ("forward", "layer")
    assert [(o.phase, o.scope) for o in trace.ops[2:]] == [("backward", "layer"), ("optimizer", "")]
    assert trace.ops[-1] == trace.ops[3]


def test_an_operator_beyond_the_end_is_an_index_error(trace):
    with pytest.raises(IndexError, match=r"^operator 4 of a trace with 4$"):
        trace.ops[4]


def test_selection_keeps_ids_with_their_rows(trace):
    assert [o.name for o in trace.without_views().ops] == ["aten.mm", "aten.mm", "mine.odd"]
    backward = trace.select(trace.rows.phase == 1)
    assert [t.id for t in backward.ops[0].inputs + backward.ops[0].outputs] == [0, 1, 3]


def test_a_call_with_the_wrong_number_of_tensors_is_refused(builder):
    with pytest.raises(ValueError, match=r"^aten\.mm has 3 tensors, got 2 ids$"):
        builder.add(MM, [0, 1])


def test_an_empty_trace_has_zero_totals(builder):
    trace = builder.finish(Origin("test"))
    assert (len(trace), trace.flops, trace.bytes, trace.is_lower_bound, list(trace.ops)) == (0, 0, 0, False, [])
    assert len(Rows.concatenate([])) == 0


@given(traces())
def test_columns_and_operators_tell_the_same(trace):
    ops = list(trace.ops)
    assert len(ops) == len(trace)
    assert trace.flops == sum(o.flops or 0 for o in ops)
    assert trace.bytes == sum(o.bytes for o in ops)
    assert trace.weight_bytes == sum(o.cost.weight_bytes for o in ops)
    assert trace.is_lower_bound == any(o.flops is None for o in ops)


@given(traces())
def test_compacting_changes_no_operator(trace):
    compact = trace.compact()
    assert list(compact.ops) == list(trace.ops)
    assert compact.compact() == compact


@given(traces())
def test_pieces_join_to_the_whole(trace):
    half = np.arange(len(trace)) < len(trace) // 2
    parts = [trace.select(half).rows, trace.select(~half).rows]
    assert Trace(trace.table, Rows.concatenate(parts), trace.scopes, trace.origin) == trace
