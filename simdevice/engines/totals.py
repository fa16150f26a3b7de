"""The recurrence for long sessions that keep totals only: drops what nothing can ask for. Has no timing rule."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterable
from typing import Any

from simdevice.engines.python import State

__all__ = ["TotalsState"]


class TotalsState(State):
    """A State without a timeline; `settled` and `forget` bound its memory."""

    rows: _Tail
    stores: _Tail
    positions: _Tail

    def __init__(self) -> None:
        super().__init__()
        self.rows, self.stores, self.positions = _Tail(self.rows), _Tail(self.stores), _Tail(self.positions)

    def settled(self) -> int:
        forgotten, operators = self.positions.gone, len(self.positions) - 1
        complete: int = bisect(range(forgotten + 1, operators + 1), self.loaded, key=self.frontier)
        return forgotten + complete

    def forget(self, operators: int) -> None:
        tiles, stores = self.positions[operators]
        self.positions.forget(operators)
        self.rows.forget(tiles - 1)  # the last of those before a position says when they are over
        self.stores.forget(stores - 1)


class _Tail(list[Any]):
    """A list that keeps its indices when it forgets its head; what is forgotten reads as (0, 0): before all time."""

    def __init__(self, items: Iterable[Any]) -> None:
        super().__init__(items)
        self.gone = 0

    def __len__(self) -> int:
        return self.gone + super().__len__()

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        kept = index - self.gone if index >= 0 else super().__len__() + index
        return super().__getitem__(kept) if kept >= 0 else (0, 0)

    def forget(self, count: int) -> None:
        """Drop the items before index `count`, as far as there are any."""
        over = min(max(count - self.gone, 0), super().__len__())
        del self[:over]
        self.gone += over
