"""One trace on one machine after another, in sums. Makes no Run: a sweep wants none."""

from __future__ import annotations

import numpy as np

from simdevice.analysis.outline import outline
from simdevice.costs import Costs
from simdevice.engines import Engine, Summing
from simdevice.errors import SpecError
from simdevice.lowering import LoweringKind, Plan, Rates
from simdevice.lowering.work import WorkTable
from simdevice.records import Outline, Trace

__all__ = ["Outlines"]


class Outlines:
    """1. Construct: the trace's dependencies are resolved. 2. `on(rates)`, for each machine: its tiles are cut,
    simulated and summed up, by the engine itself where it can.

    Raises:
        SpecError: a trace on several devices, whose queues have sums of their own and make each other wait.
    """

    def __init__(self, trace: Trace, engine: Engine, lowering: LoweringKind) -> None:
        self.check(trace)
        WorkTable.of(trace.table, Costs())  # as in Accelerator.lowering
        self._engine = engine
        self._sums = engine.outline if isinstance(engine, Summing) else None
        self._plan = Plan(lowering, trace)

    @staticmethod
    def check(trace: Trace) -> None:
        """Refuses what has no such sums: see above."""
        devices = np.unique(trace.rows.device).tolist()
        if len(devices) > 1:
            names = ", ".join(f"simacc:{index}" for index in devices)
            raise SpecError(
                f"expected a trace on one device, got one on {len(devices)} ({names}): a sweep sums up one machine; "
                "simulate this trace on each machine instead"
            )

    def on(self, rates: Rates) -> Outline:
        """The sums of one machine.

        Raises:
            LoweringError: an operator that can't be cut for it, or a program beyond `engines.check`.
        """
        program = self._plan.program(rates)
        if self._sums is not None:
            return self._sums(program)
        return outline(program, self._engine.run(program))
