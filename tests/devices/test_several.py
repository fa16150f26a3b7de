"""Several equal machines behind one host: queues of their own, one host clock, copies that occupy two queues."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simdevice.costs import Costs
from simdevice.devices import get
from simdevice.devices.accelerator import Accelerator
from simdevice.devices.offload import Offload
from simdevice.errors import FileFormatError, SimdeviceError, SpecError
from simdevice.hardware import load, load_link
from simdevice.records import OpTable, Origin, Run, Signature, TensorSpec, Trace, TraceBuilder
from simdevice.sweeps import sweep

# On an H100, x + x of n float32 numbers moves 12 n bytes at 3.35 TB/s x 0.80 = 2.68e12 B/s: 3 us for 670,000.
# A copy of them over PCIe 5 takes 5 us + 2,680,000 B / 64 GB/s = 46.875 us.
WORDS = TensorSpec((670_000,), "float32")
ADD = Signature("aten.add", (WORDS, WORDS), (WORDS,))
ADD_PS, COPY_PS = 3_000_000, 46_875_000
EVENT = TensorSpec((0,), "uint8")
RECORD = Signature("simacc.record_event", (), (EVENT,))
WAIT, SYNC_EVENT = (Signature(f"simacc.{kind}", (EVENT,), ()) for kind in ("wait_event", "synchronize_event"))
SYNCHRONIZE = Signature("simacc.synchronize", (), ())


def copy_to(device: int) -> Signature:
    return Signature("simacc.copy_between_devices", (WORDS,), (WORDS,), (("to_device", device),))


def program(*calls: tuple[int, Signature, tuple[int, ...]]) -> Trace:
    """Calls as device, signature, storages."""
    builder = TraceBuilder(OpTable(Costs()))
    for device, signature, ids in calls:
        builder.add(signature, ids, device=device)
    return builder.finish(Origin("hand"))


def spans(run: Run) -> list[tuple[int, int]]:
    return list(zip(run.start_ps.tolist(), run.end_ps.tolist(), strict=True))


def test_devices_work_at_the_same_time() -> None:
    run = get("h100").run(program((0, ADD, (0, 0, 1)), (1, ADD, (2, 2, 3)), (0, ADD, (1, 1, 4))))
    assert spans(run) == [(0, ADD_PS), (0, ADD_PS), (ADD_PS, 2 * ADD_PS)]
    assert run.makespan_ps == 2 * ADD_PS
    assert run.device_index.tolist() == [0, 1, 0]
    assert {d: own.makespan_ps for d, own in run.per_device.items()} == {0: 2 * ADD_PS, 1: ADD_PS}


def test_a_copy_waits_for_both_queues_and_holds_both() -> None:
    run = get("h100").run(
        program(
            (0, ADD, (0, 0, 1)),
            (1, ADD, (2, 2, 3)),
            (1, ADD, (3, 3, 4)),  # queue 1 is free at 6 us, queue 0 at 3
            (0, copy_to(1), (1, 5)),  # 6 to 52.875
            (0, ADD, (1, 1, 6)),
            (1, ADD, (5, 5, 7)),
            (2, ADD, (8, 8, 9)),  # a third device has nothing to do with it
        )
    )
    done = 2 * ADD_PS + COPY_PS
    assert spans(run)[3:] == [(2 * ADD_PS, done), (done, done + ADD_PS), (done, done + ADD_PS), (0, ADD_PS)]


def test_one_host_issues_for_all() -> None:
    run = get("h100").run(
        program(
            (0, ADD, (0, 0, 1)),
            (1, ADD, (2, 2, 3)),
            (1, ADD, (3, 3, 4)),
            (1, SYNCHRONIZE, ()),  # the host waits for device 1 until 6 us
            (0, ADD, (1, 1, 5)),  # so device 0, idle since 3, gets its next operator then
        )
    )
    assert spans(run)[4] == (2 * ADD_PS, 3 * ADD_PS)


def test_the_host_takes_its_time_for_each_operator_whichever_device_it_is_for() -> None:
    run = get("h100", launch_overhead_s="2 us").run(program(*[(i % 2, ADD, (i, i, 10 + i)) for i in range(4)]))
    # issued at 2, 4, 6, 8 us; each queue gets every other one and is free again in time
    issued = [2_000_000, 4_000_000, 6_000_000, 8_000_000]
    assert spans(run) == [(t, t + ADD_PS) for t in issued]


@pytest.mark.parametrize("machine", ["h100", "edge-npu"])
def test_a_wait_for_another_devices_event_holds_the_queue_and_what_hangs_on_it(machine: str) -> None:
    trace = program(
        (0, ADD, (0, 0, 1)),
        (0, RECORD, (100,)),
        (1, WAIT, (100,)),
        (1, RECORD, (101,)),  # recorded behind the wait, with nothing between: no earlier than it
        (2, WAIT, (101,)),
        (2, ADD, (2, 2, 3)),
        (1, ADD, (4, 4, 5)),
        (3, SYNC_EVENT, (101,)),
        (3, ADD, (6, 6, 7)),
    )
    run = get(machine).run(trace)
    first = run.end_ps[0]
    assert run.start_ps[[5, 6, 8]].tolist() == [first] * 3


def test_a_wait_for_ones_own_event_is_as_on_one_device() -> None:
    alone = program((0, ADD, (0, 0, 1)), (0, RECORD, (100,)), (0, WAIT, (100,)), (0, ADD, (1, 1, 2)))
    beside = program(
        (0, ADD, (0, 0, 1)), (0, RECORD, (100,)), (0, WAIT, (100,)), (0, ADD, (1, 1, 2)), (1, ADD, (7, 7, 8))
    )
    assert spans(get("edge-npu").run(beside))[:4] == spans(get("edge-npu").run(alone))


@pytest.mark.parametrize("device", [0, 3])
def test_one_device_alone_has_its_tiles_whatever_its_index(device: int) -> None:
    run = get("edge-npu").run(program((device, ADD, (0, 0, 1)), (device, SYNCHRONIZE, ())))
    assert run.timeline is not None
    assert not run.per_device
    assert run.device_index.tolist() == [device, device]


calls = st.tuples(st.integers(0, 2), st.sampled_from("aaacsrwe"), st.integers(0, 9), st.integers(0, 9))


@st.composite
def programs(draw: st.DrawFn) -> Trace:
    """Additions, copies, synchronisations and events on up to three devices."""
    rows: list[tuple[int, Signature, tuple[int, ...]]] = []
    small = TensorSpec((draw(st.sampled_from([64, 12_800])),), "float32")
    add = Signature("aten.add", (small, small), (small,))
    for device, kind, i, j in draw(st.lists(calls, max_size=14)):
        if kind == "a":
            rows.append((device, add, (10 * device + i, 10 * device + i, 10 * device + j)))
        elif kind == "c":
            to = (device + 1 + i % 2) % 3
            copied = Signature("simacc.copy_between_devices", (small,), (small,), (("to_device", to),))
            rows.append((device, copied, (10 * device + i, 10 * to + j)))
        else:
            signature = {"s": SYNCHRONIZE, "r": RECORD, "w": WAIT, "e": SYNC_EVENT}[kind]
            rows.append((device, signature, () if kind == "s" else (100 + i % 3,)))
    return program(*rows)


MACHINES = {
    "roofline": get("h100"),
    "a slow host": get("h100", launch_overhead_s="1 us"),
    "tiles": get("edge-npu"),
    "cycles, a slow host": get("edge-npu", quantise=True, launch_overhead_s="1 us"),
}


@pytest.mark.parametrize("machine", MACHINES)
@given(programs(), st.lists(st.integers(0, 14), max_size=3))
@settings(max_examples=60)
def test_in_pieces_is_as_in_one_piece(machine: str, trace: Trace, cuts: list[int]) -> None:
    device = MACHINES[machine]
    whole = device.run(trace)
    session, totals = device.open_several(trace.table), device.open_several(trace.table, keep=False)
    offsets = trace.rows.offsets(trace.table)
    for a, b in pairwise([0, *sorted(min(c, len(trace)) for c in cuts), len(trace)]):
        session.submit(trace.rows.cut(a, b, offsets))
        totals.submit(trace.rows.cut(a, b, offsets))
    assert session.finish(trace) == whole
    assert totals.frontier_ps == whole.makespan_ps


@given(programs())
@settings(max_examples=60)
def test_engines_agree(trace: Trace) -> None:
    spec = load("edge-npu", quantise=True, launch_overhead_s="100 ns")
    runs = [
        Accelerator(spec, load_link(spec.link), engine=e).run(trace) for e in ("python", "simpy", "cycle", "native")
    ]
    assert all(run == runs[0] for run in runs[1:])


@given(programs())
@settings(max_examples=60)
def test_more_devices_never_start_a_row_before_its_queue_is_free(trace: Trace) -> None:
    run = get("h100").run(trace)
    for device in np.unique(trace.rows.device).tolist():
        mine = (trace.rows.device == device) & (run.busy_ps > 0)
        assert (run.start_ps[mine][1:] >= run.end_ps[mine][:-1]).all()
    assert run.makespan_ps == run.end_ps.max(initial=0)


@pytest.mark.parametrize("ending", [".json", ".npz"])
def test_a_file_holds_the_devices(tmp_path: Path, ending: str) -> None:
    trace = program((0, ADD, (0, 0, 1)), (2, ADD, (2, 2, 3)), (0, copy_to(2), (1, 4)))
    trace.save(tmp_path / f"t{ending}")
    loaded = Trace.load(tmp_path / f"t{ending}")
    assert loaded == trace
    assert [op.device_index for op in loaded.ops] == [0, 2, 0]
    assert get("h100").run(loaded) == get("h100").run(trace)
    assert {key: t.calls for key, t in loaded.totals("device").items()} == {0: 2, 2: 1}


def test_a_file_of_one_device_is_as_before(tmp_path: Path) -> None:
    program((0, ADD, (0, 0, 1))).save(tmp_path / "t.json")
    assert '"device":' not in (tmp_path / "t.json").read_text().split('"rows"')[1]


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ('"device": [0, 2]', '"device": [0, 3]', "a device index is not in 0..2"),
        ('"device": [0, 2]', '"device": [0]', "2 operators, 1 device indices"),
        ('"devices": 3', '"devices": "3"', "a number of devices"),
    ],
)
def test_damaged_devices_are_one_line(tmp_path: Path, before: str, after: str, reason: str) -> None:
    path = tmp_path / "t.json"
    program((0, ADD, (0, 0, 1)), (2, ADD, (2, 2, 3))).save(path)
    text = path.read_text().replace(":", ": ").replace(",", ", ")
    assert before in text
    path.write_text(text.replace(before, after))
    with pytest.raises(FileFormatError, match=reason):
        Trace.load(path)


def test_a_machine_whose_host_runs_operators_is_simulated_alone() -> None:
    with pytest.raises(SpecError, match=r"^edge-npu \+ host-cpu over .* is simulated only alone: its host runs"):
        Offload("edge-npu", ["matmul"]).run(program((0, ADD, (0, 0, 1)), (1, ADD, (2, 2, 3))))


def test_reports_have_a_table_of_devices() -> None:
    run = get("h100").run(program((0, ADD, (0, 0, 1)), (1, ADD, (2, 2, 3)), (0, copy_to(1), (1, 4))))
    text = run.to_markdown()
    assert "on h100 (2 devices)" in text
    # 49.875 of 49.875 us on the first, 3 us = 6.0 % on the second
    assert "| simacc:0 | 2 | 49.87 us | 100.0% |" in text
    assert "| simacc:1 | 1 | 3 us | 6.0% |" in text
    assert "| between devices | 1 |" in text


def test_tile_tables_and_timelines_are_each_devices(tmp_path: Path) -> None:
    import json

    from simdevice.report import perfetto, timeline

    run = get("edge-npu").run(program((0, ADD, (0, 0, 1)), (1, ADD, (2, 2, 3)), (1, ADD, (3, 3, 4))))
    assert run.tiles == sum(own.tiles for own in run.per_device.values())
    assert "| simacc:1 compute |" in run.to_markdown()
    perfetto.write_chrome(run, tmp_path / "t.json")
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    names = [e["args"]["name"] for e in events if e["name"] == "process_name"]
    assert names == ["simacc:0 edge-npu", "simacc:1 edge-npu"]
    operators = [(e["pid"], e["args"]["row"]) for e in events if "row" in e.get("args", {})]
    assert operators == [(1, 0), (2, 1), (2, 2)]
    with pytest.raises(SimdeviceError, match="a picture shows one device, this run has 2"):
        timeline.write_png(run, tmp_path / "t.png")


def test_a_sweep_and_an_outline_take_one_device_and_say_so(tmp_path: Path) -> None:
    two = program((1, ADD, (0, 0, 1)), (3, ADD, (2, 2, 3)))
    message = (
        r"^expected a trace on one device, got one on 2 \(simacc:1, simacc:3\): a sweep sums up one machine; simulate "
        r"this trace on each machine instead$"
    )
    path = tmp_path / "sweep.csv"
    with pytest.raises(SpecError, match=message):
        sweep(two, "edge-npu", path=path, buffer_bytes=["1 MiB"])
    assert list(tmp_path.iterdir()) == []
    edge = get("edge-npu")
    assert isinstance(edge, Accelerator)
    with pytest.raises(SpecError, match=message):
        edge.outline(two)
    for one in (
        program((3, ADD, (0, 0, 1))),
        program((0, ADD, (0, 0, 1)), (0, copy_to(1), (1, 2)), (0, ADD, (0, 1, 3))),
    ):
        assert edge.outline(one).makespan_ps == edge.run(one).makespan_ps
