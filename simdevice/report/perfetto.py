"""A run as a trace for ui.perfetto.dev: Perfetto's protobuf, or Chrome JSON.

Tracks: the operators (each from the previous one's last compute end to its own), the load engine,
each unit, the store engine; counters for buffer and FIFO; each device is a process. Perfetto counts
nanoseconds, so times are rounded down to them there; Chrome JSON keeps picoseconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from simdevice.analysis.occupancy import Series, buffer_series, fifo_series, lanes
from simdevice.extras import extra
from simdevice.files import atomic_write
from simdevice.records import Run
from simdevice.report.protobuf import Fields, chosen, message, same, varint

__all__ = ["MAX_SLICES", "Track", "check_installed", "left_out", "tracks", "write_chrome", "write_perfetto"]

Int64 = NDArray[np.int64]

MAX_SLICES = 1_000_000

BATCH = 1 << 16
"""Slices that are encoded at once: a bound on memory."""

PACKET = 1
"""The field number of `packet` in Perfetto's Trace message."""

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
    tracks = [Track("operators", begin, last, program.trace_row)]
    tracks += [Track(lane.name, lane.start_ps, lane.end_ps, row_of_tile[lane.tile]) for lane in lanes(run)]
    return _cut(tracks, max_slices)


def _cut(tracks: list[Track], max_slices: int) -> tuple[list[Track], int]:
    total = sum(len(t.row) for t in tracks)
    if total <= max_slices:
        return tracks, 0
    operators, tiles = tracks[0], tracks[1:]
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


@dataclass(frozen=True)
class _Process:
    """One device: its name, its run, its tracks, and which row of the whole trace each of its rows is."""

    name: str
    run: Run
    kept: list[Track]
    rows: Int64


def _processes(run: Run, max_slices: int) -> tuple[list[_Process], str]:
    """Every device of a run, and what the file says of what it leaves out."""
    if not run.per_device:
        kept, missing = tracks(run, max_slices)
        contents = left_out(kept, missing, max_slices)
        return [_Process(run.device, run, kept, np.arange(len(run.trace)))], contents
    processes, notes = [], []
    share = max(max_slices // len(run.per_device), 1)
    for device, own in run.per_device.items():
        kept, missing = tracks(own, share)
        rows = np.flatnonzero(run.device_index == device)
        processes.append(_Process(f"simacc:{device} {run.device}", own, kept, rows))
        if missing:
            notes.append(f"simacc:{device}: {left_out(kept, missing, share)}")
    return processes, "; ".join(notes) or "complete"


def _names(run: Run) -> list[str]:
    """One label per signature."""
    return [s.name for s in run.trace.table.signatures]


def _batches(length: int) -> Iterator[slice]:
    return (slice(i, i + BATCH) for i in range(0, length, BATCH))


def write_chrome(run: Run, path: str | Path, *, max_slices: int = MAX_SLICES) -> None:
    """Chrome's trace event JSON, which chrome://tracing and Perfetto open."""
    processes, contents = _processes(run, max_slices)
    with atomic_write(path) as file:
        note = {"device": run.device, "workload": run.trace.origin.workload, "contents": contents}
        file.write(f'{{"displayTimeUnit": "ns", "otherData": {json.dumps(note)}, "traceEvents": [\n')
        events = (event for pid, process in enumerate(processes, 1) for event in _chrome_events(process, pid))
        for number, event in enumerate(events):
            file.write(",\n" * (number > 0) + event)
        file.write("\n]}\n")


def _chrome_events(process: _Process, pid: int) -> Iterator[str]:
    """Each event as JSON; what is the same in many is encoded once."""
    run, kept = process.run, process.kept
    yield json.dumps({"ph": "M", "pid": pid, "name": "process_name", "args": {"name": process.name}})
    names = [json.dumps(name) for name in _names(run)]
    scopes = [json.dumps(scope) for scope in run.trace.scopes]
    signature, scope = run.trace.rows.signature, run.trace.rows.scope
    for tid, track in enumerate(kept, 1):
        yield json.dumps({"ph": "M", "pid": pid, "tid": tid, "name": "thread_name", "args": {"name": track.name}})
        for part in _batches(len(track.row)):
            start, row = track.start_ps[part], track.row[part]
            lasting = track.end_ps[part] - start
            columns: list[NDArray[Any]] = [start / PS_PER_US, lasting / PS_PER_US, signature[row], scope[row]]
            columns.append(process.rows[row])
            for ts, dur, which, module, number in zip(*(c.tolist() for c in columns), strict=True):
                args = f', "args": {{"module": {scopes[module]}, "row": {number}}}' if tid == 1 else ""
                where = f'"pid": {pid}, "tid": {tid}'
                yield f'{{"ph": "X", {where}, "name": {names[which]}, "ts": {ts}, "dur": {dur}{args}}}'
    until = _until(kept)
    for name, series in _counters(run):
        times, values = _before(series, until)
        for part in _batches(len(times)):
            for ts, value in zip((times[part] / PS_PER_US).tolist(), values[part].tolist(), strict=True):
                yield f'{{"ph": "C", "pid": {pid}, "name": "{name}", "ts": {ts}, "args": {{"{name}": {value}}}}}'


def check_installed() -> Any:
    """Perfetto's message types.

    Raises:
        SimdeviceError: the perfetto package is not installed.
    """
    return extra("perfetto.protos.perfetto.trace.perfetto_trace_pb2", "perfetto", "a Perfetto trace")


def write_perfetto(run: Run, path: str | Path, *, max_slices: int = MAX_SLICES) -> None:
    """Perfetto's own protobuf.

    Raises:
        SimdeviceError: the perfetto package is not installed.
    """
    messages = check_installed()
    processes, contents = _processes(run, max_slices)
    with atomic_write(path, "wb") as file:
        _Writer(file, messages.TracePacket).write(run, processes, contents)


class _Writer:
    """One sequence of packets. Names of operators and modules are interned: a slice has their numbers.

    The package makes the few packets that describe things, and one slice of every kind; their numbers are
    then written in batches.
    """

    SEQUENCE = 1
    FIRST_TRACK = 1  # track identifiers count from here
    BEGIN, END, COUNTER = 1, 2, 4  # TrackEvent.Type
    CLEARED, NEEDED = 1, 2  # TracePacket.SequenceFlags: of interned names

    def __init__(self, file: IO[bytes], packet: Any) -> None:
        self.file, self.new = file, packet
        fields = packet.DESCRIPTOR.fields_by_name
        self.timestamp, self.track_event = fields["timestamp"].number, fields["track_event"].number
        event = fields["track_event"].message_type.fields_by_name
        self.counter_value = event["counter_value"].number
        self.uuid = self.FIRST_TRACK

    def write(self, run: Run, processes: list[_Process], contents: str) -> None:
        for pid, process in enumerate(processes, 1):
            parent = self._process(run, pid, f"{process.name}: {run.trace.origin.workload} ({contents})")
            for track in process.kept:
                self._slices(process.run, self._describe(parent, track.name), track)
            until = _until(process.kept)
            for name, series in _counters(process.run):
                self._counts(self._describe(parent, name, counter=True), *_before(series, until))

    def _next(self) -> int:
        self.uuid += 1
        return self.uuid - 1

    def _process(self, run: Run, pid: int, name: str) -> int:
        """Begin a device's process; the first also says what the numbers of names mean."""
        packet = self._packet(self.CLEARED if pid == 1 else self.NEEDED)
        uuid = packet.track_descriptor.uuid = self._next()
        packet.track_descriptor.process.pid = pid
        packet.track_descriptor.process.process_name = name
        if pid == 1:
            self._intern(run, packet.interned_data)
        self._put(packet)
        return uuid

    def _intern(self, run: Run, names: Any) -> None:
        for number, name in enumerate(_names(run), 1):
            names.event_names.add(iid=number, name=name)
        for number, scope in enumerate(run.trace.scopes, 1):
            names.debug_annotation_string_values.add(iid=number, str=scope.encode())
        names.debug_annotation_names.add(iid=1, name="module")

    def _describe(self, parent: int, name: str, *, counter: bool = False) -> int:
        """A new track of a process; its identifier."""
        packet = self._packet()
        descriptor = packet.track_descriptor
        uuid = descriptor.uuid = self._next()
        descriptor.parent_uuid, descriptor.name = parent, name
        if counter:
            descriptor.counter.SetInParent()
        self._put(packet)
        return uuid

    def _slices(self, run: Run, uuid: int, track: Track) -> None:
        """Begin and end of every slice, in turns."""
        signature, scope = run.trace.rows.signature[track.row], run.trace.rows.scope[track.row]
        if track.name != "operators":
            scope = np.zeros_like(scope)
        kinds, which = np.unique(np.stack([signature, scope], axis=1), axis=0, return_inverse=True)
        endings = [self._event(uuid, self.END)]
        endings += [self._event(uuid, self.BEGIN, int(name), int(module)) for name, module in kinds]
        for part in _batches(len(track.row)):
            times = np.stack([track.start_ps[part], track.end_ps[part]], axis=1).reshape(-1) // PS_PER_NS
            kind = np.zeros(len(times), np.int64)
            kind[::2] = 1 + which.reshape(-1)[part]
            self._put_many(times, chosen(endings, kind))

    def _event(self, uuid: int, kind: int, name: int = 0, module: int = 0) -> bytes:
        """A slice's packet without its time."""
        packet = self._packet(self.NEEDED)
        packet.track_event.type, packet.track_event.track_uuid = kind, uuid
        if kind == self.BEGIN:
            packet.track_event.name_iid = name + 1
        if module:
            packet.track_event.debug_annotations.add(name_iid=1, string_value_iid=module + 1)
        data: bytes = packet.SerializeToString()
        return data

    def _counts(self, uuid: int, times_ps: Int64, values: Int64) -> None:
        event = self.new(track_event={"type": self.COUNTER, "track_uuid": uuid}).track_event.SerializeToString()
        rest = self._packet(self.NEEDED).SerializeToString()
        for part in _batches(len(times_ps)):
            rows = len(times_ps[part])
            counted = message(self.track_event, same(event, rows) + varint(self.counter_value, values[part]))
            self._put_many(times_ps[part] // PS_PER_NS, same(rest, rows) + counted)

    def _packet(self, flags: int = 0) -> Any:
        return self.new(trusted_packet_sequence_id=self.SEQUENCE, sequence_flags=flags)

    def _put(self, packet: Any) -> None:
        self.file.write(message(PACKET, same(packet.SerializeToString(), 1)).to_bytes())

    def _put_many(self, times_ns: Int64, rest: Fields) -> None:
        self.file.write(message(PACKET, varint(self.timestamp, times_ns) + rest).to_bytes())


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
