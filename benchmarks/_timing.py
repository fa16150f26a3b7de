"""Interleaved medians: both sides of a ratio see the same machine at nearly the same moment."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

from rich.console import Console
from rich.table import Table

__all__ = ["interleaved_medians", "show"]


def interleaved_medians(
    functions: Sequence[Callable[[], object]],
    rounds: int,
    calls: int = 1,
    around: Sequence[Callable[[], AbstractContextManager[object]]] | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> list[float]:
    """Median seconds per call of each function; every round runs each of them `calls` times in turn.

    `around` gives each function a context that is open while it is timed; entering and leaving it
    is not part of the time. `clock` reads seconds: time.process_time leaves busy neighbours out.
    """
    contexts = around or [nullcontext] * len(functions)
    times: list[list[float]] = [[] for _ in functions]
    for round_ in range(rounds + 1):
        for f, context, seen in zip(functions, contexts, times, strict=True):
            with context():
                start = clock()
                for _ in range(calls):
                    f()
                took = (clock() - start) / calls
            if round_:  # the first warms up
                seen.append(took)
    return [statistics.median(seen) for seen in times]


def show(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    table = Table(*header, title=title, title_justify="left")
    for row in rows:
        table.add_row(*row)
    Console().print(table)
