"""Hypothesis strategies: programs of random tiles, dependencies, waits, buffers and channels."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import strategies as st

from simdevice.records import Program, Tiles

BUFFER = 64


def program(
    operators: Sequence[Sequence[tuple[int, int, int, int, int]]],
    *,
    deps: Sequence[Sequence[int]] | None = None,
    wait_for: Sequence[int] | None = None,
    host_wait: Sequence[int] | None = None,
    launch_ticks: Sequence[int] | None = None,
    not_before: Sequence[int] | None = None,
    buffer_bytes: int = BUFFER,
    dram_channels: int = 2,
    **rest: Any,
) -> Program:
    """Operators as lists of tiles (load, compute and store ticks, operand and result bytes)."""
    deps = [[] for _ in operators] if deps is None else deps
    rows = np.array([t for tiles in operators for t in tiles], np.int64).reshape(-1, 5)
    none = np.zeros(len(rows), np.int64)
    zeros = [0] * len(operators)
    offsets = np.cumsum([0, *(len(tiles) for tiles in operators)])
    return Program(
        Tiles(offsets, *rows.T.copy(), none, none.astype(np.uint8)),
        tile_list=np.arange(len(operators)),
        dep_offsets=np.cumsum([0, *(len(d) for d in deps)]),
        deps=np.array([d for ds in deps for d in ds], np.int64),
        wait_for=np.array(zeros if wait_for is None else wait_for, np.int64),
        host_wait=np.array(zeros if host_wait is None else host_wait, np.int64),
        launch_ticks=np.array(zeros if launch_ticks is None else launch_ticks, np.int64),
        not_before=np.array(zeros if not_before is None else not_before, np.int64),
        trace_row=np.arange(len(operators)),
        buffer_bytes=buffer_bytes,
        dram_channels=dram_channels,
        **rest,
    )


CHANNELS = st.integers(1, 3)
ticks = st.integers(0, 9) | st.integers(0, 2)
tiles = st.tuples(ticks, ticks, ticks, st.integers(0, BUFFER // 2), st.integers(0, BUFFER // 2))


@st.composite
def programs(draw: st.DrawFn, channels: st.SearchStrategy[int] = CHANNELS) -> Program:
    """Any program that `check` accepts."""
    operators = draw(st.lists(st.lists(tiles, min_size=1, max_size=5), max_size=12))
    deps = [draw(st.lists(st.integers(0, i - 1), max_size=3)) if i else [] for i in range(len(operators))]
    waits = [[draw(st.just(0) | st.integers(0, i)) for i in range(len(operators))] for _ in range(2)]
    launch = draw(st.sampled_from([0, 0, 3]))
    need = max((t[3] + t[4] for ts in operators for t in ts), default=0)
    return program(
        operators,
        deps=deps,
        wait_for=waits[0],
        host_wait=waits[1],
        launch_ticks=[launch] * len(operators),
        not_before=[draw(st.just(0) | st.integers(0, 60)) for _ in operators],
        buffer_bytes=draw(st.integers(max(need, 1), max(need, 1) + BUFFER)),
        dram_channels=draw(channels),
        quantised=True,
    )


def pieces(whole: Program, cuts: Sequence[int]) -> list[Program]:
    """The program cut before the given operators."""
    edges = [0, *sorted(min(c, whole.operators) for c in cuts), whole.operators]
    out = []
    for a, b in pairwise(edges):
        span = whole.dep_offsets[a : b + 1]
        out.append(
            Program(
                whole.tiles,
                whole.tile_list[a:b],
                span - span[0],
                whole.deps[span[0] : span[-1]],
                whole.wait_for[a:b],
                whole.host_wait[a:b],
                whole.launch_ticks[a:b],
                whole.trace_row[a:b],
                whole.buffer_bytes,
                whole.dram_channels,
                whole.ticks_per_s,
                whole.quantised,
                first_operator=a,
                not_before=whole.not_before[a:b],
            )
        )
    return out
