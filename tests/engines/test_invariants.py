"""What is true of any program on any machine of this kind, and what is not."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from program_strategies import program, programs

from simdevice.analysis.stalls import per_operator, split
from simdevice.engines import get
from simdevice.records import TIMELINE_FIELDS, Program

CHECKED = settings(max_examples=50)


@CHECKED
@given(programs())
def test_time_never_runs_backwards_within_a_tile(made: Program) -> None:
    timeline = get("native").run(made)
    columns = [getattr(timeline, name) for name in TIMELINE_FIELDS]
    assert all((a <= b).all() for a, b in pairwise(columns))


@CHECKED
@given(programs())
def test_shares_are_never_negative_and_add_up_to_the_makespan(made: Program) -> None:
    timeline = get("native").run(made)
    shares = split(made, timeline)
    assert sum(shares.values()) == timeline.makespan
    assert min(shares.values()) >= 0
    assert all((ticks >= 0).all() for ticks in per_operator(made, timeline).values())
    assert shares["compute"] + shares["link"] == made.column("compute_ticks").sum()


@CHECKED
@given(programs())
def test_the_buffer_is_never_overcommitted(made: Program) -> None:
    timeline = get("native").run(made)
    operands, results = made.column("operand_bytes"), made.column("result_bytes")
    events = [
        *zip(timeline.allocated.tolist(), (operands + results).tolist(), strict=True),
        *zip(timeline.compute_end.tolist(), (-operands).tolist(), strict=True),
        *zip(timeline.store_end.tolist(), (-results).tolist(), strict=True),
    ]
    held = np.cumsum([size for _, size in sorted(events)])  # at one tick, what is freed comes first
    assert held.max(initial=0) <= made.buffer_bytes


@CHECKED
@given(programs(channels=st.integers(2, 3)), st.data())
def test_with_two_channels_shorter_durations_are_never_slower(made: Program, data: st.DataObject) -> None:
    def shorter(column: np.ndarray) -> np.ndarray:
        cut = data.draw(st.lists(st.integers(0, 9), min_size=len(column), max_size=len(column)))
        # a transfer stays one: a tile that stores nothing is another program
        return np.where(column > 0, np.maximum(column - np.array(cut, np.int64), 1), 0)

    names = ("load_ticks", "compute_ticks", "store_ticks")
    faster = replace(made, tiles=replace(made.tiles, **{n: shorter(getattr(made.tiles, n)) for n in names}))
    slow, fast = get("native").run(made), get("native").run(faster)
    for name in TIMELINE_FIELDS:
        assert (getattr(fast, name) <= getattr(slow, name)).all()


def test_with_one_channel_a_shorter_duration_can_be_slower() -> None:
    """A FIFO anomaly: the shorter compute lets a long store ask for the channel before a load that
    everything else waits for."""
    slow = program([[(1, 3, 20, 1, 1)], [(1, 1, 0, 1, 0)], [(1, 30, 0, 1, 0)]], deps=[[], [], [1]], dram_channels=1)
    #  slow: compute 0 ends at 4, its store asks then. Operator 1 computes 4-5, so operator 2 asks at 5: after
    #  the store (4-24), loads 24-25, computes 25-55.
    assert get("native").run(slow).makespan == 55
    longer = program([[(1, 3, 20, 1, 1)], [(1, 1, 0, 1, 0)], [(1, 30, 0, 1, 0)]], deps=[[], [], []], dram_channels=1)
    #  without the dependency it asks at 2, before the store: loads 2-3, computes 5-35; store 4-24.
    assert get("native").run(longer).makespan == 35
    anomaly = program([[(2, 4, 20, 1, 1)], [(3, 1, 0, 1, 0)], [(1, 30, 0, 1, 0)]], dram_channels=1)
    #  load 0 0-2, load 1 2-5, load 2 asks at 5 and loads 5-6; compute 0 2-6, its store asks at 6: 6-26.
    #  compute 1 6-7, compute 2 7-37.
    assert get("native").run(anomaly).makespan == 37
    shorter = program([[(2, 3, 20, 1, 1)], [(3, 1, 0, 1, 0)], [(1, 30, 0, 1, 0)]], dram_channels=1)
    #  compute 0 is one tick shorter, 2-5: its store asks at 5 with load 2 and goes first, 5-25.
    #  load 2 25-26, compute 2 26-56.
    assert get("native").run(shorter).makespan == 56


@CHECKED
@given(programs(), st.integers(2, 4))
def test_a_repeated_layer_behind_a_barrier_shifts_its_times_exactly(layer: Program, copies: int) -> None:
    if not layer.operators:
        return
    layer = replace(layer, not_before=np.zeros_like(layer.not_before))  # an absolute tick does not shift
    count = layer.operators
    shifts = np.repeat(np.arange(copies) * count, count)
    # the host starts each copy afresh: it waits for all that came before
    host_wait = np.tile(layer.host_wait, copies) + shifts
    repeated = Program(
        layer.tiles,
        np.tile(layer.tile_list, copies),
        np.concatenate([[0], np.cumsum(np.tile(np.diff(layer.dep_offsets), copies))]),
        np.concatenate([layer.deps + i * count for i in range(copies)]),
        np.where(np.tile(layer.wait_for, copies) > 0, np.tile(layer.wait_for, copies) + shifts, 0),
        host_wait,
        np.tile(layer.launch_ticks, copies),
        np.arange(copies * count),
        layer.buffer_bytes,
        layer.dram_channels,
    )
    once, all_of_them = get("native").run(layer), get("native").run(repeated)
    for i in range(1, copies):
        tiles = slice(i * len(once), (i + 1) * len(once))
        for name in TIMELINE_FIELDS[1:]:  # the first tile of a copy issues as soon as the last load ended
            assert (getattr(all_of_them, name)[tiles] - i * once.makespan == getattr(once, name)).all()
