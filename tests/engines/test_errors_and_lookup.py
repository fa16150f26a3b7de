"""Engines by name, and programs that no engine accepts."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from program_strategies import program

from simdevice.engines import get, names
from simdevice.engines.python import PythonEngine
from simdevice.errors import LoweringError, SimdeviceError, SpecError, UnknownNameError
from simdevice.records import Program

GOOD = program([[(1, 1, 1, 1, 1)], [(1, 1, 1, 1, 1)]], deps=[[], [0]], quantised=True)
ENGINES = ["cycle", "native", "null", "python", "simpy"]


def test_names_are_the_engines() -> None:
    assert names() == ENGINES
    assert [get(name).name for name in names()] == ENGINES


def test_with_the_null_engine_no_time_passes() -> None:
    state = get("null").start(keep=False)
    state.append(GOOD)
    assert (state.frontier(), state.settled()) == (0, 2)
    timeline = get("null").run(GOOD)
    assert (len(timeline), timeline.makespan) == (2, 0)


def test_an_object_is_taken_as_it_is() -> None:
    engine = PythonEngine()
    assert get(engine) is engine


def test_an_unknown_engine_suggests_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match=r"^unknown engine 'natve': did you mean 'native'\?$"):
        get("natve")


def test_something_that_is_no_engine_is_refused() -> None:
    with pytest.raises(
        SimdeviceError, match=r"^expected an engine's name or an object with name, run and start, got 3$"
    ):
        get(3)  # type: ignore[arg-type]


def test_the_cycle_engine_refuses_picoseconds() -> None:
    with pytest.raises(
        SpecError, match=r"^engine 'cycle' steps whole clock cycles: set quantise=True on the device, or"
    ):
        get("cycle").run(replace(GOOD, quantised=False))


def bad(reason: str) -> Program:
    tiles = GOOD.tiles
    return {
        "buffer": replace(GOOD, buffer_bytes=1),
        "negative": replace(GOOD, tiles=replace(tiles, load_ticks=np.array([1, -1]))),
        "launch": replace(GOOD, launch_ticks=np.array([0, -1])),
        "empty": replace(GOOD, tiles=replace(tiles, offsets=np.array([0, 2, 2]))),
        "later": replace(GOOD, deps=np.array([1])),
        "wait": replace(GOOD, wait_for=np.array([1, 0])),
        "host": replace(GOOD, host_wait=np.array([0, -1])),
        "ages": replace(GOOD, tiles=replace(tiles, load_ticks=np.array([1, 2**62]))),
    }[reason]


MESSAGES = {
    "buffer": "a tile needs 2 bytes of a buffer of 1",
    "negative": "load_ticks must not be negative, got -1",
    "launch": "launch_ticks must not be negative, got -1",
    "empty": "operator 1 has no tiles",
    "later": "an operator depends on itself or a later one",
    "wait": "wait_for: an operator waits for a position after its own",
    "host": "host_wait: an operator waits for a position after its own",
    "ages": "the program takes more than 2**62 ticks",
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("reason", MESSAGES)
def test_a_program_that_cannot_run_is_refused_by_every_engine(engine: str, reason: str) -> None:
    with pytest.raises(LoweringError, match=f"^{re.escape(MESSAGES[reason])}$"):
        get(engine).run(bad(reason))


def test_columns_of_different_lengths_never_reach_the_native_engine() -> None:
    with pytest.raises(ValueError, match=r"^compute_ticks: expected 2 numbers, got 1$"):
        get("native").run(replace(GOOD, tiles=replace(GOOD.tiles, compute_ticks=np.array([1]))))
    with pytest.raises(ValueError, match=r"^offsets point outside their columns$"):
        get("native").run(replace(GOOD, tiles=replace(GOOD.tiles, offsets=np.array([0, 1, 3]))))
