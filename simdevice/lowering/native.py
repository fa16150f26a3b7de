"""Trace to Program in C++ (csrc/engine): the same Program as the Python lowering gives, fast."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from simdevice import _engine
from simdevice.errors import LoweringError
from simdevice.lowering.python import lower_signature
from simdevice.lowering.rates import Rates
from simdevice.lowering.work import WorkTable
from simdevice.records import OpTable, Program, Rows, Tiles

__all__ = ["NativeLowering"]

_RATES = (
    *("buffer_bytes", "tile_bytes", "array_rows", "array_cols", "vector_lanes", "launch_ticks", "in_transit"),
    "all_operands",
    *("transfer_fixed", "transfer_byte", "transfer_op", "transfer_scale"),
    *("cycle", "cycle_scale", "link_fixed", "link_byte", "link_scale"),
)
"""The fields of Rates in the order of the C++ structure."""

_FIELDS = attrgetter(*_RATES)


def _native(rates: Rates) -> _engine.Rates:
    return _engine.Rates(*_FIELDS(rates))


def _refusal(work: WorkTable, signature: int, rates: Rates) -> LoweringError:
    """Why the C++ side did not cut a signature."""
    try:
        lower_signature(work, signature, rates)
    except LoweringError as error:
        return error
    return LoweringError(f"{work.table.signatures[signature].name} can't be cut into tiles")


class NativeLowering:
    """See `Lowering`."""

    def __init__(self, table: OpTable, rates: Rates) -> None:
        self._table, self._rates = table, rates
        self._core = _engine.Lowering(_native(rates))

    @staticmethod
    def cut(work: WorkTable, stages: NDArray[np.int64], rates: Rates) -> Tiles:
        """See `LoweringKind`."""
        made = _engine.cut(work.columns["stages"][stages], _native(rates))
        if isinstance(made, int):
            raise _refusal(work, work.signature_of(int(stages[made])), rates)
        return Tiles(*made)

    @property
    def operators(self) -> int:
        return self._core.operators

    @property
    def host_position(self) -> int:
        return self._core.host_position

    def lower(self, rows: Rows) -> Program:
        work, first = WorkTable.of(self._table), self.operators
        columns = work.columns
        names = ("row_kind", "inputs", "outputs", "first_stage", "stages")
        made = self._core.lower(*(columns[n] for n in names), rows.signature, rows.tensors)
        if isinstance(made, int):
            raise _refusal(work, made, self._rates)
        offsets, load, compute, store, operands, results, tile_work, unit, *per_operator = made
        tile_list, dep_offsets, deps, wait_for, host_wait, launch_ticks, trace_row = per_operator
        return Program(
            Tiles(offsets, load, compute, store, operands, results, tile_work, unit),
            tile_list=tile_list,
            dep_offsets=dep_offsets,
            deps=deps,
            wait_for=wait_for,
            host_wait=host_wait,
            launch_ticks=launch_ticks,
            trace_row=trace_row,
            buffer_bytes=self._rates.buffer_bytes,
            dram_channels=self._rates.dram_channels,
            ticks_per_s=self._rates.ticks_per_s,
            quantised=self._rates.quantised,
            first_operator=first,
        )

    def event_position(self, event: int) -> int:
        position = self._core.event_position(event)
        if position < 0:
            raise KeyError(event)
        return position

    def events_before(self, operators: int) -> Mapping[int, int]:
        return self._core.events_before(operators)

    def forget_events(self, events: Iterable[int]) -> None:
        for event in events:
            self._core.forget_event(event)

    def forget(self, operators: int) -> None:
        self._core.forget(operators)
