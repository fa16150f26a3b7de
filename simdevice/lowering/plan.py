"""A whole trace with its dependencies resolved: what is left to do for one machine after another is to cut tiles."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from simdevice.lowering.base import LoweringKind
from simdevice.lowering.rates import Rates
from simdevice.lowering.work import WorkTable
from simdevice.records import Program, Trace
from simdevice.units import PS_PER_S

__all__ = ["Plan"]

_HUGE = 2**62
_BOUNDLESS = Rates(
    ticks_per_s=Fraction(PS_PER_S),
    quantised=False,
    buffer_bytes=_HUGE,
    tile_bytes=_HUGE,
    dram_channels=1,
    array_rows=2**31,
    array_cols=2**31,
    vector_lanes=2**31,
    launch_ticks=1,
    in_transit=False,
    all_operands=True,
    transfer_fixed=0,
    transfer_byte=0,
    transfer_op=0,
    transfer_scale=1,
    cycle=0,
    cycle_scale=1,
    link_fixed=0,
    link_byte=0,
    link_scale=1,
)
"""A machine on which every stage is one tile and every launch one tick: its Program holds all that does not depend on
the machine."""


class Plan:
    """A trace, ready to be cut. `program(rates)` equals what the lowering makes of the trace for these rates."""

    def __init__(self, kind: LoweringKind, trace: Trace) -> None:
        self._kind, self._work = kind, WorkTable.of(trace.table)
        self._program = program = kind(trace.table, _BOUNDLESS).lower(trace.rows)
        signature = trace.rows.signature[program.trace_row]
        within_row = np.arange(program.operators) - np.searchsorted(program.trace_row, program.trace_row)
        _, first = np.unique(program.tile_list, return_index=True)  # an operator that has each list
        self._stages = (self._work.columns["first_stage"][signature] + within_row)[first]

    def program(self, rates: Rates) -> Program:
        """The trace on one machine.

        Raises:
            LoweringError: an operator that can't be cut into tiles for this machine.
        """
        known = self._program
        return Program(
            self._kind.cut(self._work, self._stages, rates),
            tile_list=known.tile_list,
            dep_offsets=known.dep_offsets,
            deps=known.deps,
            wait_for=known.wait_for,
            host_wait=known.host_wait,
            launch_ticks=known.launch_ticks * rates.launch_ticks,
            trace_row=known.trace_row,
            buffer_bytes=rates.buffer_bytes,
            dram_channels=rates.dram_channels,
            ticks_per_s=rates.ticks_per_s,
            quantised=rates.quantised,
        )
