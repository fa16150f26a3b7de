"""A run as a trace for ui.perfetto.dev: Perfetto's protobuf, or Chrome JSON.

Tracks: the operators (each from the previous one's last compute end to its own), the load engine,
each unit, the store engine; counters for buffer and FIFO. Perfetto counts nanoseconds, so times are
rounded down to them there; Chrome JSON keeps picoseconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from simdevice.extras import extra
from simdevice.files import atomic_write
from simdevice.records import Run
from simdevice.report.timeline import lanes
from simdevice.report.utilisation import Series, buffer_series, fifo_series

__all__ = ["MAX_SLICES", "Track", "left_out", "tracks", "write_chrome", "write_perfetto"]

Int64 = NDArray[np.int64]

MAX_SLICES = 1_000_000

PS_PER_NS = 1000
PS_PER_US = 10**6


@dataclass(frozen=True)
class Track:
    """Slices of one lane in order: start, end, and the row of the trace that each belongs to."""

    name: str
    start_ps: Int64
    end_ps: Int64
    row: Int64


def tracks(run: Run, max_slices: int = MAX_SLICES) -> tuple[list[Track], int]:
    """The tracks, operators first, with at most `max_slices` slices; and how many were left out.

    What does not fit is left out from the end of time: operators stay as long as they fit, then tiles
    up to the same moment on every lane.
    """
    program, timeline = run.program, run.timeline
    if program is None or timeline is None:
        busy = np.flatnonzero(run.end_ps > run.start_ps)
        return _cut([Track("operators", run.start_ps[busy], run.end_ps[busy], busy)], max_slices)
    last = program.to_ps(timeline.compute_end[program.first_tile[1:] - 1])
    begin = np.concatenate([[0], last[:-1]]).astype(np.int64)[: len(last)]
    row_of_tile = program.trace_row[program.operator]
    found = [Track("operators", begin, last, program.trace_row)]
    found += [Track(lane.name, lane.start_ps, lane.end_ps, row_of_tile[lane.tile]) for lane in lanes(run)]
    return _cut(found, max_slices)


def _cut(found: list[Track], max_slices: int) -> tuple[list[Track], int]:
    total = sum(len(t.row) for t in found)
    if total <= max_slices:
        return found, 0
    operators, tiles = found[0], found[1:]
    kept = [_first(operators, min(len(operators.row), max_slices))]
    room = max_slices - len(kept[0].row)
    starts = np.sort(np.concatenate([t.start_ps for t in tiles])) if tiles else np.zeros(0, np.int64)
    until = int(starts[room]) if room < len(starts) else int(starts[-1]) + 1 if len(starts) else 0
    kept += [_first(t, int(np.searchsorted(t.start_ps, until))) for t in tiles]
    return kept, total - sum(len(t.row) for t in kept)


def _first(track: Track, count: int) -> Track:
    return Track(track.name, track.start_ps[:count], track.end_ps[:count], track.row[:count])


def left_out(kept: list[Track], missing: int, max_slices: int) -> str:
    """What the file says about itself."""
    if not missing:
        return "complete"
    until = max((int(t.end_ps[-1]) for t in kept[1:] if len(t.row)), default=0)
    return f"{missing:,} slices left out (at most {max_slices:,}): no tiles after {until / PS_PER_US:,.3f} us"


def _names(run: Run) -> list[str]:
    """One label per signature."""
    return [s.name for s in run.trace.table.signatures]


def write_chrome(run: Run, path: str | Path, *, max_slices: int = MAX_SLICES) -> None:
    """Chrome's trace event JSON, which chrome://tracing and Perfetto open."""
    kept, missing = tracks(run, max_slices)
    with atomic_write(path) as file:
        note = {
            "device": run.device,
            "workload": run.trace.origin.workload,
            "contents": left_out(kept, missing, max_slices),
        }
        file.write(f'{{"displayTimeUnit": "ns", "otherData": {json.dumps(note)}, "traceEvents": [\n')
        file.write(json.dumps({"ph": "M", "pid": 1, "name": "process_name", "args": {"name": run.device}}))
        for event in _chrome_events(run, kept):
            file.write(",\n" + json.dumps(event))
        file.write("\n]}\n")


def _chrome_events(run: Run, kept: list[Track]) -> Iterator[dict[str, Any]]:
    names, signature, scope = _names(run), run.trace.rows.signature, run.trace.rows.scope
    for tid, track in enumerate(kept, 1):
        yield {"ph": "M", "pid": 1, "tid": tid, "name": "thread_name", "args": {"name": track.name}}
        columns = (track.start_ps.tolist(), track.end_ps.tolist(), track.row.tolist())
        for start, end, row in zip(*columns, strict=True):
            event = {"ph": "X", "pid": 1, "tid": tid, "name": names[signature[row]]}
            event |= {"ts": start / PS_PER_US, "dur": (end - start) / PS_PER_US}
            if track.name == "operators":
                event["args"] = {"module": run.trace.scopes[scope[row]], "row": row}
            yield event
    until = _until(kept)
    for name, series in _counters(run):
        times, values = _before(series, until)
        for time, value in zip(times.tolist(), values.tolist(), strict=True):
            yield {"ph": "C", "pid": 1, "name": name, "ts": time / PS_PER_US, "args": {name: value}}


def write_perfetto(run: Run, path: str | Path, *, max_slices: int = MAX_SLICES) -> None:
    """Perfetto's own protobuf, packet by packet, so that a million slices need no memory to speak of.

    Raises:
        SimdeviceError: the perfetto package is not installed.
    """
    messages = extra("perfetto.protos.perfetto.trace.perfetto_trace_pb2", "perfetto", "a Perfetto trace")
    kept, missing = tracks(run, max_slices)
    with atomic_write(path, "wb") as file:
        _Writer(file, messages.TracePacket).write(run, kept, left_out(kept, missing, max_slices))


class _Writer:
    """One sequence of packets. Operator names are interned: a slice names one by its number."""

    SEQUENCE = 1
    PROCESS, FIRST_TRACK = 1, 2  # track identifiers

    def __init__(self, file: IO[bytes], packet: Any) -> None:
        self.file, self.packet = file, packet()

    def write(self, run: Run, kept: list[Track], contents: str) -> None:
        self._start(run, contents)
        for uuid, track in enumerate(kept, self.FIRST_TRACK):
            self._describe(uuid, track.name)
            self._slices(run, uuid, track)
        until = _until(kept)
        for uuid, (name, series) in enumerate(_counters(run), self.FIRST_TRACK + len(kept)):
            self._describe(uuid, name, counter=True)
            times, values = _before(series, until)
            for time, value in zip((times // PS_PER_NS).tolist(), values.tolist(), strict=True):
                event = self._event(time, uuid, 4)  # TYPE_COUNTER
                event.counter_value = value
                self._put()

    def _start(self, run: Run, contents: str) -> None:
        packet = self._fresh()
        packet.sequence_flags = 1  # SEQ_INCREMENTAL_STATE_CLEARED
        packet.track_descriptor.uuid = self.PROCESS
        packet.track_descriptor.process.pid = 1
        packet.track_descriptor.process.process_name = f"{run.device}: {run.trace.origin.workload} ({contents})"
        for number, name in enumerate(_names(run), 1):
            entry = packet.interned_data.event_names.add()
            entry.iid, entry.name = number, name
        self._put()

    def _describe(self, uuid: int, name: str, *, counter: bool = False) -> None:
        descriptor = self._fresh().track_descriptor
        descriptor.uuid, descriptor.parent_uuid, descriptor.name = uuid, self.PROCESS, name
        if counter:
            descriptor.counter.SetInParent()
        self._put()

    def _slices(self, run: Run, uuid: int, track: Track) -> None:
        signature, scope = run.trace.rows.signature, run.trace.rows.scope
        with_module = track.name == "operators"
        starts, ends = ((t // PS_PER_NS).tolist() for t in (track.start_ps, track.end_ps))
        for start, end, row in zip(starts, ends, track.row.tolist(), strict=True):
            event = self._event(start, uuid, 1)  # TYPE_SLICE_BEGIN
            event.name_iid = int(signature[row]) + 1
            if with_module and scope[row]:
                note = event.debug_annotations.add()
                note.name, note.string_value = "module", run.trace.scopes[scope[row]]
            self._put()
            self._event(end, uuid, 2)  # TYPE_SLICE_END
            self._put()

    def _event(self, time_ns: int, uuid: int, kind: int) -> Any:
        packet = self._fresh()
        packet.timestamp = time_ns
        packet.sequence_flags = 2  # SEQ_NEEDS_INCREMENTAL_STATE
        event = packet.track_event
        event.type, event.track_uuid = kind, uuid
        return event

    def _fresh(self) -> Any:
        self.packet.Clear()
        self.packet.trusted_packet_sequence_id = self.SEQUENCE
        return self.packet

    def _put(self) -> None:
        """One `packet` field of a Trace message: tag, length, bytes."""
        data = self.packet.SerializeToString()
        self.file.write(b"\x0a" + _varint(len(data)) + data)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _counters(run: Run) -> list[tuple[str, Series]]:
    if run.program is None:
        return []
    return [("buffer bytes", buffer_series(run)), ("ready tiles", fifo_series(run))]


def _until(kept: list[Track]) -> int:
    """The end of the tiles shown."""
    return max((int(t.end_ps[-1]) for t in kept[1:] if len(t.row)), default=0)


def _before(series: Series, until_ps: int) -> tuple[Int64, Int64]:
    shown = series.times_ps <= until_ps
    return series.times_ps[shown], series.values[shown]
