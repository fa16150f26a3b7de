"""The timeline picture, the Perfetto trace and Chrome JSON: bounded, whole, and saying what they left out."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tile_runs import ADD, edge, made, tiny_cnn

import simdevice as sd
from simdevice.analysis.occupancy import buffer_series
from simdevice.errors import SimdeviceError
from simdevice.report import perfetto
from simdevice.report.perfetto import tracks, write_chrome, write_perfetto
from simdevice.report.timeline import write_png
from simdevice.workloads.ntt import rns_product_trace


def png_size(path: Path) -> tuple[int, int]:
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    return int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")


@pytest.mark.parametrize("copies", [1, 400])
def test_a_picture_of_few_tiles_and_of_many(tmp_path: Path, copies: int) -> None:
    run = edge(buffer_bytes="128 KiB").run(made(*[(ADD, (0, 1, 2 + i)) for i in range(20 * copies)]))
    write_png(run, tmp_path / "t.png")
    width, height = png_size(tmp_path / "t.png")
    assert width > 1000
    assert height > 400
    assert [p.name for p in tmp_path.iterdir()] == ["t.png"]


def test_a_device_without_tiles_has_no_picture(tmp_path: Path) -> None:
    run = sd.device("h100").run(tiny_cnn())
    with pytest.raises(
        SimdeviceError, match=r"^h100 has no timeline: only an accelerator such as 'edge-npu' simulates tiles$"
    ):
        write_png(run, tmp_path / "t.png")
    assert not list(tmp_path.iterdir())


def test_operators_follow_each_other_and_everything_is_shown() -> None:
    run = edge().run(tiny_cnn())
    kept, missing = tracks(run)
    assert missing == 0
    assert [t.name for t in kept] == ["operators", "load", "array", "vector", "store"]
    operators = kept[0]
    assert (operators.start_ps[1:] == operators.end_ps[:-1]).all()
    assert len(operators.row) == 14
    assert sum(len(t.row) for t in kept[1:]) == 3 * 14


def test_what_does_not_fit_is_left_out_from_the_end() -> None:
    run = edge(buffer_bytes="128 KiB").run(tiny_cnn(8))
    for most in (5, 14, 100, 300):
        kept, missing = tracks(run, most)
        total = sum(len(t.row) for t in tracks(run)[0])
        assert sum(len(t.row) for t in kept) == total - missing <= most
        # every lane is shown up to about the same moment
        ends = [int(t.start_ps[-1]) for t in kept[1:] if len(t.row)]
        cut = [
            int(whole.start_ps[len(t.row)])
            for t, whole in zip(kept, tracks(run)[0], strict=True)
            if len(t.row) < len(whole.row)
        ]
        if most > 14:
            assert max(ends) < min(cut)


def test_chrome_json_holds_every_slice_in_picoseconds(tmp_path: Path) -> None:
    run = edge().run(tiny_cnn())
    write_chrome(run, tmp_path / "t.json")
    data = json.loads((tmp_path / "t.json").read_text())
    slices = [e for e in data["traceEvents"] if e["ph"] == "X"]
    assert len(slices) == 14 + 42
    assert data["otherData"]["contents"] == "complete"
    last = max(e["ts"] + e["dur"] for e in slices)
    assert last == pytest.approx(104.438125)
    counters = {e["name"] for e in data["traceEvents"] if e["ph"] == "C"}
    assert counters == {"buffer bytes", "ready tiles"}


def test_a_roofline_run_has_its_operators_in_chrome_json(tmp_path: Path) -> None:
    run = sd.device("h100").run(tiny_cnn())
    write_chrome(run, tmp_path / "t.json")
    slices = [e for e in json.loads((tmp_path / "t.json").read_text())["traceEvents"] if e["ph"] == "X"]
    assert len(slices) == 14


def test_perfetto_reads_back_slice_for_slice(tmp_path: Path) -> None:
    messages = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    run = edge().run(tiny_cnn())
    write_perfetto(run, tmp_path / "t.pftrace")
    trace = messages.Trace()
    trace.ParseFromString((tmp_path / "t.pftrace").read_bytes())
    names = {e.iid: e.name for e in trace.packet[0].interned_data.event_names}
    named = {p.track_descriptor.uuid: p.track_descriptor.name for p in trace.packet if p.HasField("track_descriptor")}
    begins = [p for p in trace.packet if p.track_event.type == messages.TrackEvent.TYPE_SLICE_BEGIN]
    ends = [p for p in trace.packet if p.track_event.type == messages.TrackEvent.TYPE_SLICE_END]
    assert len(begins) == len(ends) == 14 + 42
    operators = [p for p in begins if named[p.track_event.track_uuid] == "operators"]
    expected = [op.name for op in run.trace.ops if op.category != "view"]
    assert [names[p.track_event.name_iid] for p in operators] == expected
    assert max(p.timestamp for p in ends) == 104_438  # ns
    counts = [p for p in trace.packet if named.get(p.track_event.track_uuid) == "buffer bytes"]
    series = buffer_series(run)
    assert [p.timestamp for p in counts] == (series.times_ps // 1000).tolist()
    assert [p.track_event.counter_value for p in counts] == series.values.tolist()
    assert "complete" in trace.packet[0].track_descriptor.process.process_name


def test_operators_name_their_modules_once(tmp_path: Path) -> None:
    messages = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    run = edge().run(rns_product_trace(2**10, 3))
    write_perfetto(run, tmp_path / "t.pftrace")
    trace = messages.Trace.FromString((tmp_path / "t.pftrace").read_bytes())
    interned = trace.packet[0].interned_data
    modules = {e.iid: e.str.decode() for e in interned.debug_annotation_string_values}
    assert [e.name for e in interned.debug_annotation_names] == ["module"]
    said = [
        modules[p.track_event.debug_annotations[0].string_value_iid]
        for p in trace.packet
        if p.track_event.debug_annotations
    ]
    assert said == [f"limb{i}" for i in range(3) for _ in range(4)]


@pytest.mark.parametrize("write", [write_perfetto, write_chrome])
def test_files_do_not_depend_on_how_many_slices_are_encoded_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[..., None]
) -> None:
    pytest.importorskip("perfetto", reason="perfetto (the 'perfetto' extra) is not installed")
    run = edge(buffer_bytes="128 KiB").run(tiny_cnn(8))
    write(run, tmp_path / "whole")
    monkeypatch.setattr(perfetto, "BATCH", 7)
    write(run, tmp_path / "pieces")
    assert (tmp_path / "whole").read_bytes() == (tmp_path / "pieces").read_bytes()


def test_a_bounded_file_says_what_it_left_out(tmp_path: Path) -> None:
    messages = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    run = edge().run(tiny_cnn())
    write_perfetto(run, tmp_path / "t.pftrace", max_slices=20)
    trace = messages.Trace()
    trace.ParseFromString((tmp_path / "t.pftrace").read_bytes())
    name = trace.packet[0].track_descriptor.process.process_name
    assert "36 slices left out (at most 20): no tiles after" in name
    begins = [p for p in trace.packet if p.track_event.type == messages.TrackEvent.TYPE_SLICE_BEGIN]
    assert len(begins) == 20
