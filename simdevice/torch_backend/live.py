"""The live session: drains the native tape into a device session, lazily and in batches.

Nothing here runs inside an operator call, except when a program never asks for time: then the root
tape is simulated every quarter of a million operators, to keep memory bounded.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from simdevice.costs import Costs, registered, streamed
from simdevice.errors import SimdeviceError, SpecError
from simdevice.records import OpTable, Origin, Rows, Run, Signature, TensorSpec, Trace
from simdevice.torch_backend.host_storages import HostStorages
from simdevice.units import PS_PER_S

__all__ = [
    "DTYPES",
    "Recording",
    "add_time",
    "configure",
    "current_device",
    "insert",
    "is_initialized",
    "mark_weights",
    "native",
    "pin",
    "scope_number",
    "totals",
]

DEFAULT_DEVICE = "h100"

# ScalarType names as C++ prints them.
DTYPES = {
    "BFloat16": "bfloat16",
    "Bool": "bool",
    "Byte": "uint8",
    "Char": "int8",
    "ComplexDouble": "complex128",
    "ComplexFloat": "complex64",
    "ComplexHalf": "complex32",
    "Double": "float64",
    "Float": "float32",
    "Float4_e2m1fn_x2": "float4_e2m1fn_x2",
    "Float8_e4m3fn": "float8_e4m3fn",
    "Float8_e4m3fnuz": "float8_e4m3fnuz",
    "Float8_e5m2": "float8_e5m2",
    "Float8_e5m2fnuz": "float8_e5m2fnuz",
    "Float8_e8m0fnu": "float8_e8m0fnu",
    "Half": "float16",
    "Int": "int32",
    "Long": "int64",
    "Short": "int16",
    "UInt16": "uint16",
    "UInt32": "uint32",
    "UInt64": "uint64",
}


# Types that no kernel computes with: what they occupy.
_STORAGE = {"Bits16": "uint16"}


class _State:
    """What the process shares: the native module, the op table in native numbering, the device."""

    native: Any = None
    ready = False  # its kernels are registered
    pinned = False  # configure() changes nothing: the command line chose the machine
    device: Any = None  # simdevice.devices.Device
    table: OpTable
    numbers: array[int]  # of a native signature, its index in the table
    scopes: list[str]
    scope_numbers: dict[str, int]
    root: _Live
    open: dict[int, _Live]
    lock = threading.RLock()


def is_initialized() -> bool:
    return _State.ready


def native() -> Any:
    """The native half: loaded (and compiled, if need be) and its kernels registered, on first use."""
    if not _State.ready:
        with _State.lock:  # another thread waits here until the kernels are there; configure() comes through
            if _State.native is None:
                _initialize()
    return _State.native


def _initialize() -> None:
    from simdevice.torch_backend import build, hooks, namespace, sharing

    module = build.load()
    _State.table, _State.numbers = OpTable(Costs()), array("i")
    _State.scopes, _State.scope_numbers = [""], {"": 0}
    _State.open = {}
    _State.native = module
    try:
        configure()
    except SimdeviceError:
        _State.native = None  # a wrong SIMACC_DEVICE is said again at the next use
        raise
    module.initialize(_declared_attributes())
    module.set_callbacks(_root_is_full, _event_ps)
    if namespace._seed_at_load is not None:
        module.default_generator(0).manual_seed(namespace._seed_at_load)
    hooks.install(module)
    sharing.install()
    _State.ready = True


def _declared_attributes() -> list[tuple[str, list[str]]]:
    """Call attributes that cost rules read, by operator; an in-place operator has its base's."""
    rules = registered()
    declared = {name: list(rule.attributes) for name, rule in rules.items() if rule.attributes}
    declared |= {f"{name}_": attributes for name, attributes in declared.items() if f"{name}_" not in rules}
    return sorted(declared.items())


def configure(device: Any = None, *, engine: Any = None, numerics: None = None, **overrides: Any) -> None:
    """Choose the simulated machine: a preset name, a YAML file or a Device; spec fields by keyword.

    Time starts again at zero; tensors stay. Without a name: SIMACC_DEVICE, else "h100". A recording
    that `follows` is simulated on the new machine from its beginning.
    """
    from simdevice.devices import get

    if numerics is not None:
        raise SpecError(f"numerics={numerics!r} is not available: only None (the host's own arithmetic) is")
    if device is None:
        device = os.environ.get("SIMACC_DEVICE", DEFAULT_DEVICE)
    chosen = get(device, engine=engine, **overrides)
    module = native()
    with _State.lock:
        if _State.pinned:
            print(
                f"simacc: configure({device!r}) changes nothing: --device chose {_State.device.name}", file=sys.stderr
            )
            return
        following = [live for live in _State.open.values() if live is not _State.root]
        if not all(live.follows for live in following):
            raise SpecError("configure() inside a record() block: choose the device before recording")
        module.set_capacity(0, chosen.memory_capacity_bytes, chosen.name)
        _State.device = chosen
        recorder = module.Recorder.root()
        if _State.open:
            for live in _State.open.values():
                live.flush()
                live.resolve_events()
        _State.open.clear()
        _State.root = _Live(recorder, base_ps=0, keep=False)
        for live in (_State.root, *following):
            _State.open[live.recorder.token] = live
        for live in following:
            live.start_again()


@contextmanager
def pin() -> Iterator[None]:
    """Inside, configure() changes nothing and says so."""
    _State.pinned = True
    try:
        yield
    finally:
        _State.pinned = False


def current_device() -> Any:
    """The Device that simacc tensors are timed on."""
    native()
    return _State.device


def scope_number(path: str) -> int:
    """The number of a module path; the native tape holds these."""
    with _State.lock:
        number = _State.scope_numbers.get(path)
        if number is None:
            number = _State.scope_numbers[path] = len(_State.scopes)
            _State.scopes.append(path)
        return number


def mark_weights(module: Any) -> None:
    """Count the storages of a module's parameters as weights in everything recorded from now on."""
    native().mark_weights([p for p in module.parameters() if p.device.type == "simacc"])


def _sync_table() -> None:
    """Give every native signature that is new since last time its place in the table, and its cost."""
    table = _State.table
    for name, inputs, outputs, attributes in _State.native.signatures_since(len(_State.numbers)):
        signature = Signature(name, _specs(inputs), _specs(outputs), attributes)
        try:
            index = table.intern(signature)
        except Exception as error:  # a rule that fails must not stop the device: everything later waits for this row
            reason = f"its cost rule raised {type(error).__name__}: {error}"
            index = table.append(signature, streamed(signature, "unknown", None, reason))
        _State.numbers.append(index)


def _dtype(name: str) -> str:
    """A type as records name it; raw bits and sub-byte integers have their storage's size."""
    return DTYPES.get(name) or _STORAGE.get(name, "uint8")


def _specs(tensors: list[tuple[tuple[int, ...], str, bool]]) -> tuple[TensorSpec, ...]:
    return tuple(TensorSpec(shape, _dtype(dtype), weight) for shape, dtype, weight in tensors)


class _Live:
    """A native recorder with the session that turns its rows into time."""

    def __init__(self, recorder: Any, *, base_ps: int, keep: bool, follows: bool = False) -> None:
        self.recorder, self.base_ps, self.follows = recorder, base_ps, follows
        self.session = _State.device.open(_State.table, keep=keep)
        self.operators = 0
        self.host_storages = HostStorages(_State.native.next_id)
        self._keep = keep
        self._rows: list[Rows] = []

    def flush(self) -> None:
        """Simulate what was recorded since the last flush."""
        with _State.lock:
            signature, *rest = self.recorder.drain()
            _sync_table()
            self.feed(Rows(np.frombuffer(_State.numbers, np.int32)[signature], *rest))
            self.session.forget_events(self.recorder.drain_released_events())

    def feed(self, rows: Rows) -> None:
        if len(rows):
            self.session.submit(rows)
            self.operators += len(rows)
            if self._keep:
                self._rows.append(rows)

    def start_again(self) -> None:
        """Simulate what was recorded so far on the machine that is current now."""
        self.base_ps, self.session = 0, _State.device.open(_State.table, keep=True)
        for rows in self._rows:
            self.session.submit(rows)

    def frontier_ps(self) -> int:
        """Absolute completion frontier of everything recorded so far."""
        self.flush()
        return self.base_ps + int(self.session.frontier_ps)

    def event_ps(self, event: int) -> int:
        self.flush()
        return self.base_ps + int(self.session.event_ps(event))

    def resolve_events(self) -> None:
        """Tell events that outlive this session when they were."""
        for mark in self.recorder.unresolved_events():
            mark.resolve(self.event_ps(mark.id))

    def rows(self) -> Rows:
        return Rows.concatenate(self._rows)


def _root_is_full() -> None:
    _State.root.flush()


def _event_ps(token: int, event: int) -> int:
    with _State.lock:
        return _State.open[token].event_ps(event)


def totals() -> dict[str, float]:
    """Simulated seconds and operators since the device was configured, outside and inside of record()."""
    native()
    with _State.lock:
        return {"time_s": _State.root.frontier_ps() / PS_PER_S, "operators": _State.root.operators}


def add_time(ps: int) -> None:
    """Let simulated time pass for work that no tape holds: a compiled graph on tensors of another device. Recordings
    that are open don't see it."""
    native()
    with _State.lock:
        _State.root.base_ps += ps


def insert(rows: Callable[[OpTable, HostStorages], Rows]) -> bool:
    """Rows that no tape holds, for this thread's innermost recording, after what it holds so far; False where no
    recording is open. `rows` makes them, over the table and the storages that it is given."""
    module = native()
    with _State.lock:
        found = _State.open.get(module.Recorder.innermost().token, _State.root)
        if found is _State.root:
            return False
        found.flush()
        found.feed(rows(_State.table, found.host_storages))
    return True


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
        from simdevice.torch_backend import hooks

        self._trace = self._run = None
        with _State.lock:
            outer = _State.open.get(module.Recorder.innermost().token, _State.root)
            self._outer = outer.recorder.token
            if outer is _State.root:
                module.set_phase(0)  # an optimizer step that raised leaves its phase behind
            outer.recorder.synchronize()
            recorder = module.Recorder.open(on_all_threads=self._on_all_threads)
            self._live = _Live(recorder, base_ps=outer.frontier_ps(), keep=True, follows=self._follows)
            _State.open[recorder.token] = self._live
        if self._scopes:
            hooks.enter_scopes()
        self._began = time.perf_counter()
        return self

    def __exit__(self, *exception: object) -> None:
        capture_s = time.perf_counter() - self._began
        from simdevice.torch_backend import hooks

        if self._scopes:
            hooks.leave_scopes()
        live = self._live
        with _State.lock:
            live.recorder.synchronize()
            live.recorder.close()
            live.flush()
            live.resolve_events()
            del _State.open[live.recorder.token]
            live.host_storages.close()
            rows = live.rows()
            outer = _State.open.get(self._outer, _State.root)  # gone if it ended before this one
            outer.flush()
            outer.feed(rows)
            self._trace = Trace(_State.table, rows, tuple(_State.scopes), self._origin(capture_s)).compact()
        self._run = live.session.finish(self._trace)
        del self._live

    def _origin(self, capture_s: float) -> Origin:
        import torch

        versions = (("numpy", np.__version__), ("torch", torch.__version__))
        return Origin("live", device="simacc", path="real", versions=versions, capture_s=capture_s)

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
