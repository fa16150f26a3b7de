"""One trace on one machine after another, in sums. Makes no Run: a sweep wants none."""

from __future__ import annotations

from simdevice.analysis.outline import outline
from simdevice.costs import Costs
from simdevice.engines import Engine, Summing
from simdevice.lowering import LoweringKind, Plan, Rates
from simdevice.lowering.work import WorkTable
from simdevice.records import Outline, Trace

__all__ = ["Outlines"]


class Outlines:
    """1. Construct: the trace's dependencies are resolved. 2. `on(rates)`, for each machine: its tiles are cut,
    simulated and summed up, by the engine itself where it can."""

    def __init__(self, trace: Trace, engine: Engine, lowering: LoweringKind) -> None:
        WorkTable.of(trace.table, Costs())  # as in Accelerator.lowering
        self._engine = engine
        self._sums = engine.outline if isinstance(engine, Summing) else None
        self._plan = Plan(lowering, trace)

    def on(self, rates: Rates) -> Outline:
        """The sums of one machine.

        Raises:
            LoweringError: an operator that can't be cut for it, or a program beyond `engines.check`.
        """
        program = self._plan.program(rates)
        if self._sums is not None:
            return self._sums(program)
        return outline(program, self._engine.run(program))
