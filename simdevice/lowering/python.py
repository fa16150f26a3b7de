"""Trace to Program in Python: the specification of the C++ lowering."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from simdevice.errors import LoweringError
from simdevice.lowering.rates import Rates
from simdevice.lowering.tiling import Tile, cut
from simdevice.lowering.work import ROW_KINDS, WorkTable
from simdevice.records import OpTable, Program, Rows, Signature, Tiles

__all__ = ["PythonLowering", "lower_signature"]

_OPERATOR, _VIEW, _SYNCHRONIZE, _RECORD, _WAIT, _SYNCHRONIZE_EVENT = range(len(ROW_KINDS))


def lower_signature(work: WorkTable, index: int, rates: Rates) -> list[list[Tile]]:
    """The tiles of each stage of one signature.

    Raises:
        LoweringError: names the operator, its shapes and why it can't be cut.
    """
    with _naming(work, index):
        return [cut(stage, rates) for stage in work.stages[index]]


@contextmanager
def _naming(work: WorkTable, index: int) -> Iterator[None]:
    """Adds the operator to what is said about its stages."""
    try:
        yield
    except LoweringError as error:
        raise LoweringError(f"{_shown(work.table.signatures[index])}: {error}") from None


def _shown(signature: Signature) -> str:
    return f"{signature.name}({', '.join('x'.join(map(str, t.shape)) or '1' for t in signature.inputs)})"


def _columns(lists: Sequence[Sequence[Tile]]) -> Tiles:
    offsets = np.cumsum([0, *map(len, lists)]).astype(np.int64)
    rows = np.array([tile for tiles in lists for tile in tiles], np.int64).reshape(-1, 7)
    load, compute, store, operands, results, work, unit = rows.T.copy()
    return Tiles(offsets, load, compute, store, operands, results, work, unit.astype(np.uint8))


class PythonLowering:
    """See `Lowering`."""

    def __init__(self, table: OpTable, rates: Rates) -> None:
        self._table, self._rates = table, rates
        self._lists: dict[int, list[list[Tile]]] = {}  # by signature
        self._writer: dict[int, int] = {}  # storage to operator
        self._events: dict[int, int] = {}
        self._wait = self._host_wait = self._rows = 0
        self.operators = 0

    @staticmethod
    def cut(work: WorkTable, stages: NDArray[np.int64], rates: Rates) -> Tiles:
        """See `LoweringKind`."""
        lists: list[list[Tile]] = []
        for stage in stages.tolist():
            signature = work.signature_of(stage)
            with _naming(work, signature):
                lists.append(cut(work.stages[signature][stage - int(work.columns["first_stage"][signature])], rates))
        return _columns(lists)

    @property
    def host_position(self) -> int:
        return self._host_wait

    def lower(self, rows: Rows) -> Program:
        piece = _Piece(self.operators)
        work = WorkTable.of(self._table)
        kinds, counts = work.columns["row_kind"].tolist(), work.columns["inputs"].tolist()
        offsets, tensors = rows.offsets(self._table).tolist(), rows.tensors.tolist()
        for row, signature in enumerate(rows.signature.tolist()):
            ids = tensors[offsets[row] : offsets[row + 1]]
            reads, writes = ids[: counts[signature]], ids[counts[signature] :]
            kind = kinds[signature]
            if kind == _OPERATOR:
                self._operator(piece, work, signature, reads, writes, self._rows + row)
            elif kind == _VIEW:
                self._view(reads, writes)
            else:
                self._order(kind, ids[0] if ids else -1)
        self._rows += len(rows)
        return piece.program(self._rates)

    def _operator(
        self, piece: _Piece, work: WorkTable, signature: int, reads: list[int], writes: list[int], row: int
    ) -> None:
        stages = work.stages[signature]
        if not stages:
            return
        if signature not in self._lists:
            self._lists[signature] = lower_signature(work, signature, self._rates)
        deps = sorted({self._writer[s] for s in reads if s in self._writer})
        for i, (stage, tiles) in enumerate(zip(stages, self._lists[signature], strict=True)):
            piece.tile_list.append(piece.list_of((signature, i), tiles))
            piece.deps.append([self.operators - 1] if stage.chained else deps)
            piece.orders.append((self._wait, self._host_wait, 0 if i else self._rates.launch_ticks, row))
            self._wait = self._host_wait = 0
            self.operators += 1
        for storage in writes:
            if storage >= 0:
                self._writer[storage] = self.operators - 1

    def _view(self, reads: list[int], writes: list[int]) -> None:
        writers = [self._writer[s] for s in reads if s in self._writer]
        for storage in writes:
            if storage >= 0 and storage not in reads:
                self._writer.pop(storage, None)
                if writers:
                    self._writer[storage] = max(writers)

    def _order(self, kind: int, event: int) -> None:
        if kind == _RECORD:
            self._events[event] = self.operators
        elif kind == _WAIT:
            self._wait = max(self._wait, self._events.get(event, 0))
        else:
            position = self.operators if kind == _SYNCHRONIZE else self._events.get(event, 0)
            self._host_wait = max(self._host_wait, position)

    def event_position(self, event: int) -> int:
        return self._events[event]

    def events_before(self, operators: int) -> Mapping[int, int]:
        return {event: at for event, at in self._events.items() if at < operators}

    def forget_events(self, events: Iterable[int]) -> None:
        for event in events:
            self._events.pop(event, None)

    def forget(self, operators: int) -> None:
        self._writer = {s: op for s, op in self._writer.items() if op >= operators}


class _Piece:
    """The columns of one piece while they grow."""

    def __init__(self, first_operator: int) -> None:
        self.first_operator = first_operator
        self.tile_list: list[int] = []
        self.deps: list[list[int]] = []
        self.orders: list[tuple[int, int, int, int]] = []
        self._lists: list[list[Tile]] = []
        self._index: dict[tuple[int, int], int] = {}

    def list_of(self, key: tuple[int, int], tiles: list[Tile]) -> int:
        """The index of a tile list; a new one is appended."""
        if key not in self._index:
            self._index[key] = len(self._index)
            self._lists.append(tiles)
        return self._index[key]

    def program(self, rates: Rates) -> Program:
        orders = np.array(self.orders, np.int64).reshape(-1, 4).T.copy()
        return Program(
            _columns(self._lists),
            tile_list=np.array(self.tile_list, np.int64),
            dep_offsets=np.cumsum([0, *map(len, self.deps)]).astype(np.int64),
            deps=np.array([d for deps in self.deps for d in deps], np.int64),
            wait_for=orders[0],
            host_wait=orders[1],
            launch_ticks=orders[2],
            trace_row=orders[3],
            buffer_bytes=rates.buffer_bytes,
            dram_channels=rates.dram_channels,
            ticks_per_s=rates.ticks_per_s,
            quantised=rates.quantised,
            first_operator=self.first_operator,
        )
