"""Recordings: the trace and the simulated run of a block of a program."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch

from simdevice.records import OpTable, Origin, Rows, Run, Trace
from simdevice.torch_backend import scopes
from simdevice.torch_backend.bootstrap import native
from simdevice.torch_backend.host_storages import HostStorages
from simdevice.torch_backend.process import PROCESS
from simdevice.torch_backend.session import LiveSession, innermost

__all__ = ["Recording", "insert"]


class Recording:
    """`with torch.simacc.record() as rec:` - the trace and the simulated run of a block.

    1. Entering drains the queue and starts time at zero. 2. The block's operators, transfers and
    synchronisations are logged. 3. Leaving drains again; then `trace` and `run` are there, and
    `device.run(rec.trace) == rec.run`. The enclosing recording receives the block's rows between
    two synchronisations. `scopes` names the module of every operator; off, it costs nothing. With
    `follows`, configure() may change the machine inside the block, which is then simulated anew; with
    `on_all_threads`, threads that have no recording of their own are part of the block.
    """

    def __init__(self, *, scopes: bool = True, follows: bool = False, on_all_threads: bool = False) -> None:
        self._scopes, self._follows, self._on_all_threads = scopes, follows, on_all_threads
        self._trace: Trace | None = None
        self._run: Run | None = None

    def __enter__(self) -> Recording:
        module = native()
        self._trace = self._run = None
        with PROCESS.lock:
            outer = innermost()
            self._outer = outer.recorder.token
            if outer is PROCESS.root:
                module.set_phase(0)  # an optimizer step that raised leaves its phase behind
            outer.recorder.synchronize_all()
            recorder = module.Recorder.open(on_all_threads=self._on_all_threads)
            self._session = LiveSession(recorder, base_ps=outer.frontier_ps(), keep=True, follows=self._follows)
            PROCESS.open[recorder.token] = self._session
        if self._scopes:
            scopes.enter_scopes()
        self._began = time.perf_counter()
        return self

    def __exit__(self, *exception: object) -> None:
        capture_s = time.perf_counter() - self._began
        if self._scopes:
            scopes.leave_scopes()
        session = self._session
        with PROCESS.lock:
            session.recorder.synchronize_all()
            session.recorder.close()
            session.flush()
            session.resolve_events()
            del PROCESS.open[session.recorder.token]
            session.host_storages.close()
            rows = session.rows()
            outer = PROCESS.open.get(self._outer, PROCESS.root)  # gone if it ended before this one
            outer.take(session)
            self._trace = Trace(PROCESS.table, rows, tuple(PROCESS.scopes), _origin(capture_s)).compact()
        self._run = session.session.finish(self._trace)
        del self._session

    @property
    def trace(self) -> Trace:
        """The block's operators; RuntimeError while the block is still open."""
        if self._trace is None:
            raise RuntimeError("the trace is there once the record() block has ended")
        return self._trace

    @property
    def run(self) -> Run:
        """The block on the simulated device; RuntimeError while the block is still open."""
        if self._run is None:
            raise RuntimeError("the run is there once the record() block has ended")
        return self._run


def _origin(capture_s: float) -> Origin:
    versions = (("numpy", np.__version__), ("torch", torch.__version__))
    return Origin("live", device="simacc", path="real", versions=versions, capture_s=capture_s)


def insert(rows: Callable[[OpTable, HostStorages], Rows]) -> bool:
    """Rows that no tape holds, for this thread's innermost recording, after what it holds so far; False where no
    recording is open. `rows` makes them, over the table and the storages that it is given."""
    with PROCESS.lock:
        session = innermost()
        if session is PROCESS.root:
            return False
        session.flush()
        inserted = rows(PROCESS.table, session.host_storages)
        launch = PROCESS.native.current_launch()
        if launch >= 0:
            session.keep_for_profiler(inserted, np.full(len(inserted), launch, np.int64))
        session.feed(inserted)
    return True
