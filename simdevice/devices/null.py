"""The null device: takes every row and no time. For what needs a session and no machine, and for tests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from simdevice.devices.base import Device, Session, no_engine, no_fusion
from simdevice.hardware import NullSpec
from simdevice.records import OpTable, Rows, Run, Trace

__all__ = ["NullDevice"]


NO_LIMIT = 2**63 - 1


class NullDevice(Device):
    """Every row starts and ends at zero."""

    def __init__(self, spec: NullSpec | None = None) -> None:
        self.spec = NullSpec(name="null") if spec is None else spec
        self.name, self.memory_capacity_bytes = self.spec.name, NO_LIMIT

    @classmethod
    def of(cls, spec: NullSpec, *, engine: Any, fused: bool) -> NullDevice:
        no_engine(spec.name, "null device", engine)
        no_fusion(spec.name, "null device", fused)
        return cls(spec)

    def __repr__(self) -> str:
        return f"NullDevice({self.name!r})"

    def open(self, table: OpTable, *, keep: bool = True) -> NullSession:
        return NullSession(self)


class NullSession(Session):
    """See Session."""

    def __init__(self, device: NullDevice) -> None:
        self._device, self._rows = device, 0

    def submit(self, rows: Rows) -> None:
        self._rows += len(rows)

    @property
    def frontier_ps(self) -> int:
        return 0

    @property
    def host_ps(self) -> int:
        return 0

    def hold(self, *, host_ps: int = 0, device_ps: int = 0) -> None:
        pass

    def event_ps(self, event: int) -> int:
        return 0

    def forget_events(self, events: Iterable[int]) -> None:
        pass

    def finish(self, trace: Trace) -> Run:
        never = np.zeros(self._rows, np.int64)
        return self.run_of(
            self._device,
            trace,
            (never, never.copy(), never.copy()),
            0,
            bounds_ps={},
            bound=np.zeros(self._rows, np.uint8),
            bound_names=("nothing",),
        )
