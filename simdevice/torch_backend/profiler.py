"""torch.profiler's device side: the rows recorded while a profiler runs, and their simulated times when it ends.

A profile is simulated anew, from an idle device: what an operator takes in it is what it takes in a `record()` block of
the same program.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simdevice.devices import Device
from simdevice.records import Cost, OpTable, Origin, Rows, Run, Trace
from simdevice.torch_backend.process import PROCESS

__all__ = ["Capture", "profiled_part", "timed_profile"]

Int64 = NDArray[np.int64]

_UNPROFILED = -1  # a row from before or after the profiler; 0: launched outside of all operators


class Capture:
    """The rows of one recorder while a profiler runs: `device` times them, from `begins_ps` on its clock.

    `launches` holds one number per row: the profiler's for the operator that launched it.
    """

    def __init__(self, device: Device, begins_ps: int) -> None:
        self.device, self.begins_ps = device, begins_ps
        self._rows: list[Rows] = []
        self._launches: list[Int64] = []

    def add(self, rows: Rows, launches: Int64) -> None:
        self._rows.append(rows)
        self._launches.append(launches)

    def extend(self, other: Capture) -> None:
        self._rows += other._rows
        self._launches += other._launches

    def simulate(self) -> tuple[Run, Int64]:
        """All rows on an idle device, and what launched each."""
        trace = Trace(PROCESS.table, Rows.concatenate(self._rows), tuple(PROCESS.scopes), Origin("live"))
        return self.device.run(trace), np.concatenate(self._launches)


def profiled_part(rows: Rows, launches: Int64, table: OpTable) -> tuple[Rows, Rows, Int64]:
    """The rows before a profiler began, those from then on, and the latter's launches."""
    profiled = launches > _UNPROFILED
    first = int(profiled.argmax()) if profiled.any() else len(rows)
    offsets = rows.offsets(table)
    return rows.cut(0, first, offsets), rows.cut(first, len(rows), offsets), launches[first:]


def timed_profile() -> tuple[Any, ...]:
    """The native half calls this when a profiler has ended: every kernel with its times, as `runtime/Profiler.h` takes
    them: tracks, kinds, and five columns of kernels."""
    with PROCESS.lock:
        for session in PROCESS.open.values():
            session.flush()
            session.finish_capture()
        captures, PROCESS.captures = PROCESS.captures, []
        return _profile(captures)


def _profile(captures: list[Capture]) -> tuple[Any, ...]:
    tracks: list[tuple[int, str, str, int]] = []
    kinds: list[tuple[str, bool, list[tuple[str, str]]]] = []
    columns: list[list[Int64]] = [[], [], [], [], []]
    after_ps = 0  # machines follow each other: configure() starts the clock again
    for machine, of_machine in groupby(captures, lambda capture: capture.device):
        group = list(of_machine)
        clock_ps = min(capture.begins_ps for capture in group)
        ends_ps = clock_ps
        for capture in group:
            run, launches = capture.simulate()
            ends_ps = max(ends_ps, capture.begins_ps + run.makespan_ps)
            profiled = (launches > _UNPROFILED) & (run.busy_ps > 0)
            for index in np.unique(run.device_index[profiled]).tolist():
                kept = np.flatnonzero(profiled & (run.device_index == index))
                of_kind, kind = np.unique(run.trace.rows.signature[kept], return_inverse=True)
                start = capture.begins_ps + _start_ps(run, index)[kept]
                track, busy = np.full(len(kept), len(tracks)), run.busy_ps[kept]
                values = track, kind.reshape(-1) + len(kinds), launches[kept], start, busy
                for column, part in zip(columns, values, strict=True):
                    column.append(part)
                kinds += _kinds(run.trace.table, of_kind.tolist())
                earlier = sum(device == index for device, *_ in tracks)  # of another recording, or another machine
                name = f"queue {earlier + 1}" if earlier else "queue"
                tracks.append((index, name, machine.name, after_ps - clock_ps))
        after_ps += ends_ps - clock_ps
    return tracks, kinds, *(np.concatenate([*column, np.empty(0, np.int64)]) for column in columns)


def _start_ps(run: Run, index: int) -> Int64:
    """When each row of a device began to occupy it. Tiles of the next row may load before that; a row's own time there
    is the computing frontier's advance, and the frontier is the sum of all before."""
    if run.per_device.get(index, run).timeline is None:
        return run.start_ps
    busy = np.where(run.device_index == index, run.busy_ps, 0)
    return np.cumsum(busy) - busy


def _kinds(table: OpTable, signatures: Iterable[int]) -> list[tuple[str, bool, list[tuple[str, str]]]]:
    """Of each signature: its name, whether it is a copy over the link, and what the trace viewer says beside it."""
    out = []
    for index in signatures:
        cost: Cost = table.costs[index]
        arguments = [("category", f'"{cost.category}"'), ("bytes", str(cost.bytes))]
        if cost.flops:
            arguments.append(("flops", str(cost.flops)))
        out.append((table.signatures[index].name, cost.category == "transfer", arguments))
    return out
