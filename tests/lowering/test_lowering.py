"""Traces become Programs: the same in C++ as in Python, dependencies and waits by the rules."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lowering_strategies import EVENT, machines, tensor, traces

from simdevice.costs import Costs
from simdevice.errors import LoweringError
from simdevice.hardware import AcceleratorSpec, load, load_link
from simdevice.lowering import Lowering, PythonLowering, Rates, lower
from simdevice.lowering.native import NativeLowering
from simdevice.records import OpTable, Origin, Program, Rows, Signature, Trace, TraceBuilder

CHECKED = settings(max_examples=80)

ADD = Signature("aten.add", (tensor(4, 4), tensor(4, 4)), (tensor(4, 4),))
VIEW = Signature("aten.view", (tensor(4, 4),), (tensor(16),))
RECORD, WAIT, SYNC_EVENT = (
    Signature(f"simacc.{k}", (EVENT,), ()) for k in ("record_event", "wait_event", "synchronize_event")
)
SYNCHRONIZE = Signature("simacc.synchronize", (), ())

BOTH = pytest.mark.parametrize("kind", [PythonLowering, NativeLowering])


def made(*calls: tuple[Signature, tuple[int, ...]]) -> Trace:
    builder = TraceBuilder(OpTable(Costs()))
    for signature, ids in calls:
        builder.add(signature, ids)
    return builder.finish(Origin("hand"))


def lowering(kind: type, trace: Trace, spec: AcceleratorSpec | None = None) -> Lowering:
    spec = spec or load("edge-npu")
    found: Lowering = kind(trace.table, Rates.of(spec, load_link(spec.link)))
    return found


def deps(program: Program) -> list[list[int]]:
    return [a.tolist() for a in np.split(program.deps, program.dep_offsets[1:-1])]


def batches(rows: Rows, trace: Trace, cuts: list[int]) -> list[Rows]:
    edges = [0, *sorted(min(c, len(rows)) for c in cuts), len(rows)]
    offsets = rows.offsets(trace.table)
    return [rows.cut(a, b, offsets) for a, b in pairwise(edges)]


def outcome(growing: Lowering, rows: Rows) -> Program | str:
    """The Program, or what was said where there is none."""
    try:
        return growing.lower(rows)
    except LoweringError as error:
        return str(error)


@CHECKED
@given(traces(), machines())
def test_cpp_and_python_give_the_same_program(trace: Trace, spec: AcceleratorSpec) -> None:
    python, native = lowering(PythonLowering, trace, spec), lowering(NativeLowering, trace, spec)
    assert outcome(native, trace.rows) == outcome(python, trace.rows)


@BOTH
@CHECKED
@given(traces(), st.lists(st.integers(0, 25), max_size=3))
def test_batches_join_to_the_program_of_the_whole(kind: type, trace: Trace, cuts: list[int]) -> None:
    growing = lowering(kind, trace)
    pieces = [growing.lower(rows) for rows in batches(trace.rows, trace, cuts)]
    assert Program.concatenate(pieces) == lower(trace, load("edge-npu"))
    assert growing.operators == sum(p.operators for p in pieces)


@BOTH
def test_an_operator_depends_on_the_last_writer_of_each_storage_it_reads(kind: type) -> None:
    trace = made((ADD, (0, 1, 2)), (ADD, (2, 2, 3)), (ADD, (0, 1, 2)), (ADD, (2, 3, 4)), (ADD, (-1, 0, 5)))
    assert deps(lowering(kind, trace).lower(trace.rows)) == [[], [0], [], [1, 2], []]


@BOTH
def test_a_view_of_another_storage_passes_its_writer_on(kind: type) -> None:
    trace = made((ADD, (0, 1, 2)), (VIEW, (2, 7)), (ADD, (7, 1, 3)), (VIEW, (8, 7)), (ADD, (7, 1, 3)))
    program = lowering(kind, trace).lower(trace.rows)
    assert deps(program) == [[], [0], []]
    assert program.trace_row.tolist() == [0, 2, 4]


@BOTH
def test_a_parameter_is_ready_until_an_operator_writes_it(kind: type) -> None:
    weight = tensor(4, 4, is_weight=True)
    use = Signature("aten.add", (tensor(4, 4), weight), (tensor(4, 4),))
    step = Signature("aten.add_", (weight, tensor(4, 4)), (weight,))
    trace = made((use, (0, 9, 1)), (step, (9, 1, 9)), (use, (0, 9, 2)))
    assert deps(lowering(kind, trace).lower(trace.rows)) == [[], [0], [1]]


@BOTH
def test_fused_attention_is_two_operators_and_the_second_reads_the_scores(kind: type) -> None:
    query = tensor(1, 2, 8, 4)
    attention = Signature("aten.scaled_dot_product_attention", (query, query, query), (query,))
    trace = made((ADD, (0, 1, 2)), (attention, (2, 2, 2, 3)), (ADD, (3, 3, 4)))
    program = lowering(kind, trace).lower(trace.rows)
    assert program.trace_row.tolist() == [0, 1, 1, 2]
    assert deps(program) == [[], [0], [1], [2]]


@BOTH
def test_synchronize_holds_the_host_back_for_everything_before(kind: type) -> None:
    trace = made((ADD, (0, 1, 2)), (ADD, (0, 1, 3)), (SYNCHRONIZE, ()), (ADD, (0, 1, 4)), (ADD, (0, 1, 5)))
    program = lowering(kind, trace).lower(trace.rows)
    assert program.host_wait.tolist() == [0, 0, 2, 0]
    assert program.wait_for.tolist() == [0, 0, 0, 0]


@BOTH
def test_events_hold_back_what_comes_after_the_wait_until_what_came_before_the_event(kind: type) -> None:
    trace = made(
        (ADD, (0, 1, 2)),
        (RECORD, (50,)),
        (ADD, (0, 1, 3)),
        (WAIT, (50,)),
        (WAIT, (51,)),  # never recorded: holds nothing back
        (ADD, (0, 1, 4)),
        (RECORD, (50,)),
        (SYNC_EVENT, (50,)),
        (ADD, (0, 1, 5)),
    )
    made_lowering = lowering(kind, trace)
    program = made_lowering.lower(trace.rows)
    assert program.wait_for.tolist() == [0, 0, 1, 0]
    assert program.host_wait.tolist() == [0, 0, 0, 3]
    assert made_lowering.event_position(50) == 3
    assert made_lowering.events_before(4) == {50: 3}
    with pytest.raises(KeyError):
        made_lowering.event_position(51)
    made_lowering.forget_events([50])
    with pytest.raises(KeyError):
        made_lowering.event_position(50)


@BOTH
def test_the_launch_is_charged_once_per_row(kind: type) -> None:
    query = tensor(1, 2, 8, 4)
    attention = Signature("aten.scaled_dot_product_attention", (query, query, query), (query,))
    trace = made((attention, (0, 1, 2, 3)), (VIEW, (3, 3)), (ADD, (3, 3, 4)))
    program = lowering(kind, trace, load("edge-npu", launch_overhead_s="5 us")).lower(trace.rows)
    assert program.launch_ticks.tolist() == [5_000_000, 0, 5_000_000]


@BOTH
def test_forgotten_writers_are_no_dependencies(kind: type) -> None:
    trace = made((ADD, (0, 1, 2)), (ADD, (0, 1, 3)))
    more = made((ADD, (2, 3, 4)))
    growing = lowering(kind, trace)
    growing.lower(trace.rows)
    growing.forget(1)
    assert deps(growing.lower(more.rows)) == [[1]]


@BOTH
def test_equal_signatures_share_one_list_of_tiles(kind: type) -> None:
    trace = made(*[(ADD, (0, 1, i)) for i in range(2, 50)])
    program = lowering(kind, trace).lower(trace.rows)
    assert len(program) == 48
    assert len(program.tiles.load_ticks) == 1
    assert program.tile_list.tolist() == [0] * 48


@BOTH
def test_operators_with_nothing_to_do_have_no_tiles(kind: type) -> None:
    empty = Signature("aten.add", (tensor(0, 4), tensor(0, 4)), (tensor(0, 4),))
    trace = made((ADD, (0, 1, 2)), (empty, (2, 2, 3)), (ADD, (3, 1, 4)))
    program = lowering(kind, trace).lower(trace.rows)
    assert program.trace_row.tolist() == [0, 2]
    assert deps(program) == [[], []]


@BOTH
def test_an_operator_that_cannot_be_cut_is_named_with_its_shapes_and_what_to_change(kind: type) -> None:
    trace = made((Signature("aten.mm", (tensor(8, 8), tensor(8, 8)), (tensor(8, 8),)), (0, 1, 2)))
    expected = (
        r"^aten\.mm\(8x8, 8x8\): its smallest tile needs 12 bytes, a tile may use 8 of the buffer's 16 bytes: "
        r"enlarge buffer_bytes or tile_fraction$"
    )
    with pytest.raises(LoweringError, match=expected):
        lowering(kind, trace, load("edge-npu", buffer_bytes=16)).lower(trace.rows)


@BOTH
def test_a_buffer_so_small_that_tiles_are_countless_is_refused(kind: type) -> None:
    big = tensor(8192, 8192)
    trace = made((Signature("aten.mm", (big, big), (big,)), (0, 1, 2)))
    with pytest.raises(
        LoweringError, match=r"^aten\.mm\(8192x8192, 8192x8192\): it would be \d+ tiles, more than 16777216;"
    ):
        lowering(kind, trace, load("edge-npu", buffer_bytes=64)).lower(trace.rows)


@BOTH
def test_a_view_over_two_tensors_waits_for_the_later_of_their_writers(kind: type) -> None:
    two = Signature("aten.view", (tensor(4, 4), tensor(4, 4)), (tensor(32),))
    relu = Signature("aten.relu", (tensor(32),), (tensor(32),))
    # operators 0 and 1 write storages 2 and 5; the view of both, in either order, is storage 6
    for order in ((2, 5), (5, 2)):
        trace = made((ADD, (0, 1, 2)), (ADD, (3, 4, 5)), (two, (*order, 6)), (relu, (6, 7)))
        program = lowering(kind, trace).lower(trace.rows)
        assert program.deps[program.dep_offsets[2] : program.dep_offsets[3]].tolist() == [1]


def test_ticks_of_a_clock_that_does_not_divide_a_picosecond_are_rounded_up() -> None:
    spec = load("edge-npu", clock_hz="700 MHz", quantise=True)
    assert isinstance(spec, AcceleratorSpec)
    trace = made((ADD, (0, 1, 2)))
    program = lower(trace, spec)
    # a tick is 1e12 / 7e8 = 1428.57 ps; 7 are 10,000 exactly
    assert program.to_ps(np.array([0, 1, 2, 7])).tolist() == [0, 1_429, 2_858, 10_000]
