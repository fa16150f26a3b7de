"""Any program: every engine gives the same eight times, in one piece or in several."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from program_strategies import pieces, programs

from simdevice.engines import get
from simdevice.engines.cycle import _Machine
from simdevice.records import Program

SLOW = settings(max_examples=25)
FAST = settings(max_examples=80)

cuts = st.lists(st.integers(0, 12), max_size=3)


@FAST
@given(programs())
def test_native_equals_the_recurrence(program: Program) -> None:
    assert get("native").run(program) == get("python").run(program)


@SLOW
@given(programs())
def test_simpy_equals_the_recurrence(program: Program) -> None:
    assert get("simpy").run(program) == get("python").run(program)


@SLOW
@given(programs())
def test_cycle_equals_the_recurrence(program: Program) -> None:
    assert get("cycle").run(program) == get("python").run(program)


@SLOW
@given(programs(), st.permutations(["host", "load", "compute", "store"]))
def test_the_order_of_the_cycle_engines_units_cannot_matter(program: Program, order: list[str]) -> None:
    machine = _Machine(program)
    machine.units = [getattr(machine, name) for name in order]
    assert machine.run() == get("cycle").run(program)


@pytest.mark.parametrize("engine", ["native", "python"])
@FAST
@given(programs(), cuts)
def test_in_pieces_equals_in_one_piece(engine: str, program: Program, at: list[int]) -> None:
    state = get(engine).start()
    for piece in pieces(program, at):
        state.append(piece)
        state.frontier()  # asking changes nothing
        state.timeline()
    whole = get("python").run(program)
    assert state.timeline() == whole
    assert state.frontier() == whole.makespan


@pytest.mark.parametrize("engine", ["simpy", "cycle"])
@SLOW
@given(programs(), cuts)
def test_a_replayed_state_equals_one_piece(engine: str, program: Program, at: list[int]) -> None:
    state = get(engine).start()
    for piece in pieces(program, at):
        state.append(piece)
    assert state.timeline() == get("python").run(program)


@pytest.mark.parametrize("engine", ["native", "python", "simpy"])
@SLOW
@given(programs())
def test_the_frontier_of_a_position_is_the_last_store_end_before_it(engine: str, program: Program) -> None:
    timeline = get("python").run(program)
    state = get(engine).start()
    state.append(program)
    for operators in range(program.operators + 1):
        tiles = program.first_tile[operators]
        assert state.frontier(operators) == timeline.store_end[:tiles].max(initial=0)


@pytest.mark.parametrize("engine", ["native", "python"])
@FAST
@given(programs(), cuts)
def test_forgetting_what_is_settled_changes_nothing(engine: str, program: Program, at: list[int]) -> None:
    whole = get("python").run(program)
    state = get(engine).start(keep=False)
    for piece in pieces(program, at):
        state.append(piece)
        settled = state.settled()
        done = piece.first_operator + piece.operators
        assert 0 <= settled <= done
        state.forget(settled)
        for position in range(settled, done + 1):
            tiles = program.first_tile[position]
            # what no later tile of the whole program can still delay is final
            assert state.frontier(position) <= whole.store_end[:tiles].max(initial=0)
    for position in range(settled, program.operators + 1):
        assert state.frontier(position) == whole.store_end[: program.first_tile[position]].max(initial=0)


@FAST
@given(programs())
def test_pieces_join_to_the_whole_program(program: Program) -> None:
    assert Program.concatenate(pieces(program, [1, 3])) == program


def test_native_times_are_handed_over_in_one_array() -> None:
    from program_strategies import program

    timeline = get("native").run(program([[(1, 1, 1, 1, 1)]] * 4))
    assert timeline.issue.base is timeline.store_end.base
    assert timeline.issue.dtype == np.int64
