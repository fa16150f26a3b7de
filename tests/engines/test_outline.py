"""Sums of a simulation: the native engine's equal those that the analysis makes of the timeline."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from program_strategies import program, programs

from simdevice.analysis.outline import outline
from simdevice.analysis.stalls import STALLS
from simdevice.engines import Summing, get
from simdevice.records import Amounts, Outline, Program


def summed(made: Program) -> Outline:
    engine = get("native")
    assert isinstance(engine, Summing)
    return engine.outline(made)


@st.composite
def working(draw: st.DrawFn) -> Program:
    """A random program whose tiles have units and work, and whose operators share lists of tiles."""
    made = draw(programs())
    tiles, lists = len(made.tiles.load_ticks), made.operators
    unit = draw(st.lists(st.integers(0, 2), min_size=tiles, max_size=tiles))
    work = draw(st.lists(st.integers(0, 99), min_size=tiles, max_size=tiles))
    shared = draw(st.lists(st.integers(0, max(lists - 1, 0)), min_size=lists, max_size=lists))
    return replace(
        made,
        tiles=replace(made.tiles, unit=np.array(unit, np.uint8), work=np.array(work, np.int64)),
        tile_list=np.array(shared, np.int64),
        ticks_per_s=draw(st.sampled_from([made.ticks_per_s, made.ticks_per_s / 1300])),
    )


@settings(max_examples=300)
@given(working())
def test_native_sums_equal_the_analysis_of_the_timeline(made: Program) -> None:
    found = summed(made)
    assert found == outline(made, get("python").run(made))
    assert sum(found.stalls) == found.makespan


def test_a_program_by_hand() -> None:
    # One channel, a buffer of 10 bytes; load, compute, store ticks, operand and result bytes.
    # tile 0: load 0-2, compute 2-5, store 5-6; tile 1 needs 6 of the 10 - 6 bytes: room at 5, when 4 are freed, so it
    # asks with the store, which goes first: load 6-8, compute 8-9, store 9-13. Tile 2 depends on both: load 13-14,
    # compute 14-15, stores nothing.
    made = program(
        [[(2, 3, 1, 4, 2)], [(2, 1, 4, 3, 3)], [(1, 1, 0, 1, 1)]],
        deps=[[], [], [0, 1]],
        buffer_bytes=10,
        dram_channels=1,
        quantised=True,
    )
    found = summed(made)
    # compute 3 + 1 + 1; loads are waited for 0-2, 5-8 (5-6 for the channel), 13-14; dependencies 9-13
    shares = {"compute": 5, "link": 0, "load_bandwidth": 6, "buffer_full": 0, "dependency": 4, "store_tail": 0}
    assert dict(zip(STALLS, found.stalls, strict=True)) == shares
    assert (found.makespan, found.tiles, found.buffer_peak_bytes) == (15, 3, 8)  # at 5: 2 of tile 0, 6 of tile 1
    assert found.amounts == Amounts((5, 0, 0), (0, 0, 0), 5, 5, 3, loaded_bytes=8, stored_bytes=5)


def test_nothing_is_zero() -> None:
    made = program([])
    assert summed(made) == outline(made, get("python").run(made))
    assert summed(made).makespan == 0


@pytest.mark.parametrize("engine", ["native", "null", "python", "simpy", "cycle"])
def test_only_the_native_engine_sums_by_itself(engine: str) -> None:
    assert isinstance(get(engine), Summing) == (engine == "native")
