"""Live sessions: batches equal the whole, events and synchronisation have their times, totals stay small."""

from __future__ import annotations

import sys
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import simdevice
from simdevice.analysis.outline import outline
from simdevice.costs import Costs
from simdevice.devices import accelerator, get
from simdevice.devices.accelerator import Accelerator, AcceleratorSession
from simdevice.engines.python import PythonEngine
from simdevice.engines.totals import TotalsState
from simdevice.errors import SimdeviceError, SpecError
from simdevice.lowering import PythonLowering
from simdevice.records import OpTable, Origin, Signature, TensorSpec, Trace, TraceBuilder

CHECKED = settings(max_examples=40)

WORDS = TensorSpec((12_800,), "float32")  # 51,200 bytes: 4 us of a 12.8 GB/s channel
ADD = Signature("aten.add", (WORDS, WORDS), (WORDS,))
EVENT = TensorSpec((0,), "uint8")
RECORD, WAIT, SYNC_EVENT = (
    Signature(f"simacc.{kind}", (EVENT,), ()) for kind in ("record_event", "wait_event", "synchronize_event")
)
SYNCHRONIZE = Signature("simacc.synchronize", (), ())
TO_DEVICE = Signature("simacc.copy_to_device", (), (WORDS,))
TO_HOST = Signature("simacc.copy_to_host", (WORDS,), ())

# On edge-npu an addition loads 102,400 bytes, 120 ns + 8 us; computes 12,800 / 64 cycles, 200 ns;
# stores 51,200 bytes, 120 ns + 4 us.
LOAD, COMPUTE, STORE = 8_120_000, 200_000, 4_120_000
# The link takes 5 us + 51,200 B / 64 GB/s = 5.8 us.
LINK = 5_800_000


def made(*calls: tuple[Signature, tuple[int, ...]]) -> Trace:
    builder = TraceBuilder(OpTable(Costs()))
    for signature, ids in calls:
        builder.add(signature, ids)
    return builder.finish(Origin("hand"))


def live(device: Accelerator, trace: Trace, cuts: list[int], *, keep: bool = True) -> AcceleratorSession:
    """Submits the trace in batches."""
    session = device.open(trace.table, keep=keep)
    offsets = trace.rows.offsets(trace.table)
    for a, b in pairwise([0, *sorted(min(c, len(trace)) for c in cuts), len(trace)]):
        session.submit(trace.rows.cut(a, b, offsets))
        assert session.frontier_ps >= 0  # asking changes nothing
    return session


def edge(**overrides: object) -> Accelerator:
    device = get("edge-npu", **overrides)  # type: ignore[arg-type]
    assert isinstance(device, Accelerator)
    return device


calls = st.one_of(
    st.tuples(st.just(ADD), st.tuples(*[st.integers(0, 4)] * 3)),
    st.tuples(st.just(TO_DEVICE), st.tuples(st.integers(0, 4))),
    st.tuples(st.just(TO_HOST), st.tuples(st.integers(0, 4))),
    st.just((SYNCHRONIZE, ())),
    st.tuples(st.sampled_from([RECORD, WAIT, SYNC_EVENT]), st.tuples(st.integers(100, 102))),
)


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("engine", ["native", "python", "simpy"])
@CHECKED
@given(st.lists(calls, max_size=12), st.lists(st.integers(0, 12), max_size=3))
def test_a_live_session_equals_the_offline_run(engine: str, channels: int, rows: list, cuts: list[int]) -> None:
    trace = made(*rows)
    device = edge(engine=engine, dram_channels=channels, launch_overhead_s="100 ns")
    run = device.run(trace)
    session = live(device, trace, cuts)
    assert session.finish(trace) == run
    assert session.frontier_ps == run.makespan_ps
    assert edge(dram_channels=channels, launch_overhead_s="100 ns").run(trace) == run


@CHECKED
@given(st.lists(calls, max_size=20), st.lists(st.integers(0, 20), max_size=5))
def test_a_session_of_totals_has_the_same_frontiers_and_events(rows: list, cuts: list[int]) -> None:
    trace = made(*rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(accelerator, "FORGET_EVERY", 1)
        totals = live(edge(), trace, cuts, keep=False)
    kept = live(edge(), trace, [])
    assert totals.frontier_ps == kept.frontier_ps
    for event in {ids[0] for signature, ids in rows if signature is RECORD}:
        assert totals.event_ps(event) == kept.event_ps(event)


def test_rows_start_with_their_buffer_space_and_end_with_their_last_store() -> None:
    run = edge().run(made((ADD, (0, 1, 2)), (ADD, (2, 1, 3))))
    one = LOAD + COMPUTE + STORE
    assert run.start_ps.tolist() == [0, one]
    assert run.end_ps.tolist() == [one, 2 * one]
    assert run.busy_ps.tolist() == [LOAD + COMPUTE, one]
    assert run.makespan_ps == 2 * one


def test_later_loads_prefetch_across_an_event() -> None:
    trace = made((ADD, (0, 1, 2)), (RECORD, (100,)), (ADD, (0, 1, 3)))
    session = live(edge(), trace, [])
    run = session.finish(trace)
    assert session.event_ps(100) == LOAD + COMPUTE + STORE  # the frontier, not when the next load began
    assert run.start_ps.tolist() == [0, LOAD + COMPUTE + STORE, LOAD]


def test_a_wait_for_an_event_holds_back_what_comes_after_it_until_then() -> None:
    # two independent additions; the third waits for the event between them, not for the second
    trace = made((ADD, (0, 1, 2)), (RECORD, (100,)), (ADD, (0, 1, 3)), (WAIT, (100,)), (ADD, (0, 1, 4)))
    run = edge().run(trace)
    # the second loads 8.12-16.24 us, after the event at 12.44 us: the load engine is the later one
    assert run.start_ps[4] == 2 * LOAD
    only = made((ADD, (0, 1, 2)), (RECORD, (100,)), (WAIT, (100,)), (ADD, (0, 1, 4)))
    assert edge().run(only).start_ps[3] == LOAD + COMPUTE + STORE


def test_synchronize_holds_back_what_comes_after_it_until_all_is_complete() -> None:
    run = edge().run(made((ADD, (0, 1, 2)), (SYNCHRONIZE, ()), (ADD, (0, 1, 3))))
    assert run.start_ps.tolist() == [0, LOAD + COMPUTE + STORE, LOAD + COMPUTE + STORE]


def test_an_event_that_was_not_recorded_has_no_time() -> None:
    with pytest.raises(KeyError):
        live(edge(), made((WAIT, (100,))), []).event_ps(100)


def test_forgotten_events_have_no_time() -> None:
    session = live(edge(), made((RECORD, (100,))), [])
    assert session.event_ps(100) == 0
    session.forget_events([100, 101])
    with pytest.raises(KeyError):
        session.event_ps(100)


def test_copies_take_the_link() -> None:
    # the copy in runs from 0; the addition that reads it then loads; the copy out waits for its store
    run = edge().run(made((TO_DEVICE, (0,)), (ADD, (0, 1, 2)), (TO_HOST, (2,))))
    one = LOAD + COMPUTE + STORE
    assert run.end_ps.tolist() == [LINK, LINK + one, LINK + one + LINK]
    assert run.stalls["link"] == 2 * LINK
    assert run.bounds_ps["link"] == 2 * LINK


def test_views_are_at_the_frontier_of_their_position_and_take_nothing() -> None:
    view = Signature("aten.view", (WORDS,), (WORDS,))
    run = edge().run(made((view, (0, 0)), (ADD, (0, 1, 2)), (view, (2, 2))))
    one = LOAD + COMPUTE + STORE
    assert run.start_ps.tolist() == [0, 0, one]
    assert run.end_ps.tolist() == [0, one, one]
    assert run.busy_ps[[0, 2]].tolist() == [0, 0]
    assert [run.bound_names[i] for i in run.bound.tolist()] == ["nothing", "load bandwidth", "nothing"]  # type: ignore[union-attr]


def test_the_launch_overhead_is_host_time() -> None:
    run = edge(launch_overhead_s="50 us").run(made((ADD, (0, 1, 2)), (ADD, (0, 1, 3))))
    assert run.start_ps.tolist() == [50_000_000, 100_000_000]


def test_a_clock_that_is_no_whole_number_of_picoseconds_converts_at_the_edge() -> None:
    # 700 MHz: the addition's load is ceil(8.12 us x 0.7) = 5684 cycles, 8,120,000 ps exactly
    run = edge(clock_hz="700 MHz", quantise=True).run(made((ADD, (0, 1, 2))))
    # 5684 + 200 + ceil(4.12 us x 0.7) = 2884 cycles: 8768 / 0.7 GHz, rounded up
    assert run.timeline is not None
    assert run.timeline.makespan == 5684 + 200 + 2884
    assert run.makespan_ps == 12_525_715
    assert sum(run.stalls.values()) == run.makespan_ps


def test_without_operators_there_is_no_time() -> None:
    run = edge().run(made())
    assert run.makespan_ps == 0
    assert sum(run.stalls.values()) == 0
    waiting = edge().run(made((SYNCHRONIZE, ())))
    assert waiting.end_ps.tolist() == [0]


def test_what_is_no_trace_is_said() -> None:
    with pytest.raises(SpecError, match=r"^expected a Trace, as sd.trace\(...\) or .* gives, got str$"):
        edge().run("gpt2")  # type: ignore[arg-type]


def test_an_engine_can_be_an_object() -> None:
    trace = made((ADD, (0, 1, 2)))
    assert edge(engine=PythonEngine()).run(trace) == edge().run(trace)


@pytest.mark.parametrize(("engine", "rounds"), [("native", 50), ("python", 5)])
def test_many_operators_of_totals_stay_small(monkeypatch: pytest.MonkeyPatch, engine: str, rounds: int) -> None:
    monkeypatch.setattr(accelerator, "FORGET_EVERY", 1 << 14)
    device, trace = edge(engine=engine), made(*[(ADD, (0, i % 7, i % 5)) for i in range(20_000)])
    session = device.open(trace.table, keep=False)
    for _ in range(rounds):
        session.submit(trace.rows)
    state = session._state
    assert state.settled() > 20_000 * rounds - 100
    if isinstance(state, TotalsState):
        session._clean_up()
        assert all(len(list(kept)) < 100 for kept in (state.rows, state.stores, state.positions))
    kept = device.open(trace.table)
    kept.submit(trace.rows)
    assert session.frontier_ps > (rounds - 1) * kept.frontier_ps


@pytest.mark.parametrize("engine", ["native", "python", "simpy"])
def test_an_outline_is_the_sums_of_the_run_whatever_makes_tiles_and_times(engine: str) -> None:
    trace = made(*[(ADD, (i, i + 1, i + 2)) for i in range(9)])
    device = edge(engine=engine)
    run = device.run(trace)
    assert run.program is not None
    assert run.timeline is not None
    expected = outline(run.program, run.timeline)
    assert device.outline(trace) == expected
    assert Accelerator(device.spec, device.link, engine=engine, lowering=PythonLowering).outline(trace) == expected
    assert expected.makespan_ps == run.makespan_ps


def test_without_the_compiled_engine_the_recurrence_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = made((ADD, (0, 1, 2)))
    expected = edge().run(trace)
    monkeypatch.setitem(sys.modules, "simdevice._engine", None)
    monkeypatch.delattr(simdevice, "_engine")
    monkeypatch.delitem(sys.modules, "simdevice.engines.native")
    monkeypatch.delitem(sys.modules, "simdevice.lowering.native", raising=False)
    device = edge()
    assert device.engine.name == "python"
    assert device.lowering_kind is PythonLowering
    assert device.run(trace) == expected
    with pytest.raises(
        SimdeviceError, match=r"^engine 'native': the compiled engine is missing \(reinstall simdevice with"
    ):
        edge(engine="native")


@CHECKED
@given(st.lists(calls, max_size=12))
def test_no_schedule_beats_the_bounds_of_its_tiles(rows: list) -> None:
    run = edge().run(made(*rows))
    assert run.makespan_ps >= max(run.bounds_ps.values())
    assert sum(run.stalls.values()) == run.makespan_ps
    assert run.busy_ps.sum() + run.stalls["store_tail"] == run.makespan_ps
    assert (run.start_ps <= run.end_ps).all()


def test_the_memory_bound_counts_what_is_stored_too() -> None:
    run = get("edge-npu").run(made((ADD, (0, 1, 2))))
    # 2 x 51,200 bytes in, 51,200 out, over 25.6 GB/s
    assert run.bounds_ps["memory"] == 153_600 * 10**12 // 25_600_000_000 == 6_000_000


def test_a_run_names_what_its_tiles_move_besides() -> None:
    big = TensorSpec((512, 512), "float32")  # 1 MiB each: cut into blocks by a buffer of 512 KiB
    product, bias = Signature("aten.addmm", (TensorSpec((512,), "float32"), big, big), (big,)), 512 * 4
    for name, left_out in (("edge-npu", 0), ("published/edge-npu", -2 * bias)):
        run = get(name, buffer_bytes="512 KiB").run(made((product, (0, 1, 2, 3)), (product, (0, 3, 2, 4))))
        assert run.program is not None
        stored = run.program.column("result_bytes")[run.program.column("store_ticks") > 0].sum()
        moved = int(run.program.column("operand_bytes").sum() + stored)
        assert moved == run.trace.bytes + sum(run.excess_bytes.values())
        assert run.excess_bytes.get("left out", 0) == left_out
        # halving until three blocks fit 256 KiB: (128, 256, 128); a is read again for 4 blocks of columns, b of rows
        assert run.excess_bytes["blocks"] == 2 * (3 + 3) * 2**20
    assert get("h100").run(made((product, (0, 1, 2, 3)))).excess_bytes == {}
