"""The live session: drains the native tape into a device session, lazily and in batches.

Nothing here runs inside an operator call, except when a program never asks for time: then the root
tape is simulated every quarter of a million operators, to keep memory bounded.
"""

from __future__ import annotations

import os
import threading
import time
from typing import Any

import numpy as np

from simdevice.costs import Costs, registered
from simdevice.errors import SimdeviceError, SpecError
from simdevice.records import OpTable, Origin, Rows, Run, Signature, TensorSpec, Trace
from simdevice.units import PS_PER_S

__all__ = [
    "DTYPES",
    "Recording",
    "configure",
    "current_device",
    "is_initialized",
    "mark_weights",
    "native",
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


class _State:
    """What the process shares: the native module, the op table in native numbering, the device."""

    native: Any = None
    device: Any = None  # simdevice.devices.Device
    table: OpTable
    scopes: list[str]
    scope_numbers: dict[str, int]
    root: _Live
    open: dict[int, _Live]
    lock = threading.RLock()


def is_initialized() -> bool:
    return _State.native is not None


def native() -> Any:
    """The native half: loaded (and compiled, if need be) and its kernels registered, on first use."""
    if _State.native is None:
        with _State.lock:
            if _State.native is None:
                _initialize()
    return _State.native


def _initialize() -> None:
    from simdevice.torch_backend import build, hooks, namespace

    module = build.load()
    _State.table, _State.scopes, _State.scope_numbers = OpTable(Costs()), [""], {"": 0}
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


def _declared_attributes() -> list[tuple[str, list[str]]]:
    """Call attributes that cost rules read, by operator; an in-place operator has its base's."""
    rules = registered()
    declared = {name: list(rule.attributes) for name, rule in rules.items() if rule.attributes}
    declared |= {f"{name}_": attributes for name, attributes in declared.items() if f"{name}_" not in rules}
    return sorted(declared.items())


def configure(device: Any = None, *, engine: Any = None, numerics: None = None, **overrides: Any) -> None:
    """Choose the simulated machine: a preset name, a YAML file or a Device; spec fields by keyword.

    Time starts again at zero; tensors stay. Without a name: SIMACC_DEVICE, else the last one's default.
    """
    from simdevice.devices import get

    if numerics is not None:
        raise SpecError(f"numerics={numerics!r} is not available: only None (the host's own arithmetic) is")
    if device is None:
        device = os.environ.get("SIMACC_DEVICE", DEFAULT_DEVICE)
    chosen = get(device, engine=engine, **overrides)
    module = native()
    with _State.lock:
        if len(_State.open) > 1:
            raise SpecError("configure() inside a record() block: choose the device before recording")
        module.set_capacity(0, chosen.memory_capacity_bytes, chosen.name)
        _State.device = chosen
        recorder = module.Recorder.root()
        if _State.open:
            _State.root.flush()
            _State.root.resolve_events()
        _State.open.clear()
        _State.root = _Live(recorder, base_ps=0, keep=False)
        _State.open[recorder.token] = _State.root


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
    """Give every signature that is new since last time its cost. Native numbers are table indices."""
    table = _State.table
    for name, inputs, outputs, attributes in _State.native.signatures_since(len(table)):
        table.append(Signature(name, _specs(inputs), _specs(outputs), attributes))


def _specs(tensors: list[tuple[tuple[int, ...], str, bool]]) -> tuple[TensorSpec, ...]:
    return tuple(TensorSpec(shape, DTYPES[dtype], weight) for shape, dtype, weight in tensors)


class _Live:
    """A native recorder with the session that turns its rows into time."""

    def __init__(self, recorder: Any, *, base_ps: int, keep: bool) -> None:
        self.recorder, self.base_ps = recorder, base_ps
        self.session = _State.device.open(_State.table, keep=keep)
        self.operators = 0
        self._keep = keep
        self._rows: list[Rows] = []

    def flush(self) -> None:
        """Simulate what was recorded since the last flush."""
        with _State.lock:
            rows = Rows(*self.recorder.drain())
            self.feed(rows)
            self.session.forget_events(self.recorder.drain_released_events())

    def feed(self, rows: Rows) -> None:
        _sync_table()
        if len(rows):
            self.session.submit(rows)
            self.operators += len(rows)
            if self._keep:
                self._rows.append(rows)

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


class Recording:
    """`with torch.simacc.record() as rec:` - the trace and the simulated run of a block.

    1. Entering drains the queue and starts time at zero. 2. The block's operators, transfers and
    synchronisations are logged. 3. Leaving drains again; then `trace` and `run` are there, and
    `device.run(rec.trace) == rec.run`. The enclosing recording receives the block's rows between
    two synchronisations. `scopes` names the module of every operator; off, it costs nothing.
    """

    def __init__(self, *, scopes: bool = True) -> None:
        self._scopes = scopes
        self._trace: Trace | None = None
        self._run: Run | None = None

    def __enter__(self) -> Recording:
        module = native()
        from simdevice.torch_backend import hooks

        with _State.lock:
            self._device = _State.device
            self._outer = _State.open.get(module.Recorder.innermost().token, _State.root)
            self._outer.recorder.synchronize()
            self._live = _Live(module.Recorder.open(), base_ps=self._outer.frontier_ps(), keep=True)
            _State.open[self._live.recorder.token] = self._live
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
            rows = live.rows()
            self._outer.flush()
            self._outer.feed(rows)
            self._trace = Trace(_State.table, rows, tuple(_State.scopes), self._origin(capture_s)).compact()
        self._run = live.session.finish(self._trace)
        del self._live, self._outer

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
