"""The lowering contract: rows of a trace in, a piece of a Program out, in order, as a live session needs it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from simdevice.lowering.rates import Rates
from simdevice.lowering.work import WorkTable
from simdevice.records import OpTable, Program, Rows, Tiles

__all__ = ["Lowering", "LoweringKind"]


class LoweringKind(Protocol):
    """One implementation, as a class: makes a lowering of a trace's rows, and cuts stages alone."""

    def __call__(self, table: OpTable, rates: Rates) -> Lowering: ...

    def cut(self, work: WorkTable, stages: NDArray[np.int64], rates: Rates) -> Tiles:
        """The tiles of stages (rows of the work's column of that name), one list each, in order.

        Raises:
            LoweringError: names the first operator that can't be cut, its shapes and why.
        """


class Lowering(Protocol):
    """1. `lower` batches of rows in program order; the pieces join to the Program of all rows.
    2. `event_position` says before which operator an event was last recorded.
    3. `forget` and `forget_events` drop what cannot be asked for any more.

    What a row becomes:

    1. Each stage of an operator (see work.py) is one operator of the Program; a signature is cut into
       tiles once. A chained stage depends on the one before it, all others on the last writer of each
       storage the row reads. Parameters are ready, unless an operator wrote them.
    2. A view whose output is another storage passes on the writer of what it looks at.
    3. `synchronize` makes the host wait, before it issues the next operator, for all operators so
       far; `synchronize_event` for those before the event. `wait_event` makes the device wait. An
       event that was never recorded holds nothing back.
    """

    @property
    def operators(self) -> int: ...
    @property
    def host_position(self) -> int:
        """The operators before this position are complete before the host issues the next row; 0: none has to be."""

    def lower(self, rows: Rows) -> Program: ...
    def event_position(self, event: int) -> int: ...
    def events_before(self, operators: int) -> Mapping[int, int]:
        """The events recorded before a position, with their positions."""

    def forget_events(self, events: Iterable[int]) -> None: ...
    def forget(self, operators: int) -> None:
        """Operators before this position are complete before anything loads: nothing depends on them."""
