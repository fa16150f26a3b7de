"""The rules of the recurrence, one tiny scenario each; times are worked out by hand."""

from __future__ import annotations

import pytest
from program_strategies import program

from simdevice.engines import get
from simdevice.records import TIMELINE_FIELDS, Program

# Tiles are (load, compute, store ticks, operand bytes, result bytes).


def times(made: Program) -> dict[str, list[int]]:
    timeline = get("python").run(made)
    return {name: getattr(timeline, name).tolist() for name in TIMELINE_FIELDS}


def test_one_tile_loads_computes_and_stores() -> None:
    # load 0-5, compute 5-8, store 8-10
    assert times(program([[(5, 3, 2, 4, 4)]])) == {
        "issue": [0],
        "dependencies_met": [0],
        "allocated": [0],
        "load_end": [5],
        "compute_start": [5],
        "compute_end": [8],
        "store_start": [8],
        "store_end": [10],
    }


def test_the_next_load_overlaps_compute_and_store() -> None:
    found = times(program([[(5, 3, 2, 4, 4), (5, 3, 2, 4, 4)]]))
    assert found["issue"] == [0, 5]
    assert found["load_end"] == [5, 10]
    assert found["compute_start"] == [5, 10]
    assert found["store_end"] == [10, 15]


def test_computes_run_in_order_one_at_a_time() -> None:
    # the second tile is loaded at 2 but waits for the first one's compute, 1-11
    found = times(program([[(1, 10, 0, 1, 0)], [(1, 1, 0, 1, 0)]]))
    assert found["load_end"] == [1, 2]
    assert found["compute_start"] == [1, 11]


def test_an_operators_first_tile_waits_until_what_it_depends_on_is_stored() -> None:
    # operator 0 is complete at 5+3+2 = 10; operator 1 loads 10-11; its second tile does not wait again
    found = times(program([[(5, 3, 2, 1, 1)], [(1, 1, 0, 1, 0), (1, 1, 0, 1, 0)]], deps=[[], [0]]))
    assert found["issue"] == [0, 5, 11]
    assert found["dependencies_met"] == [0, 10, 11]
    assert found["load_end"] == [5, 11, 12]


def test_an_operator_without_a_store_is_complete_when_its_compute_ends() -> None:
    found = times(program([[(5, 3, 0, 1, 1)], [(1, 1, 0, 1, 0)]], deps=[[], [0]]))
    assert found["dependencies_met"] == [0, 8]
    assert (found["store_start"][0], found["store_end"][0]) == (8, 8)


def test_operands_are_freed_when_the_compute_ends_and_the_result_when_the_store_ends() -> None:
    # 10 bytes of buffer. Tile 0 holds 6 + 4. Tile 1 needs 6: free at 8. Tile 2 needs 4 more: free at 10.
    found = times(program([[(5, 3, 2, 6, 4), (1, 9, 0, 6, 0), (1, 1, 0, 4, 0)]], buffer_bytes=10))
    assert found["allocated"] == [0, 8, 10]


def test_a_partial_sum_is_released_when_its_compute_ends() -> None:
    # the first tile stores nothing: all of its 10 bytes are free at 8
    found = times(program([[(5, 3, 0, 6, 4), (1, 1, 0, 10, 0)]], buffer_bytes=10))
    assert found["allocated"] == [0, 8]


def test_what_is_freed_at_a_tick_is_room_at_that_tick() -> None:
    # tile 0: compute ends at 4 and frees 10; tile 1's dependency is met at exactly 4
    found = times(program([[(2, 2, 0, 10, 0)], [(1, 1, 0, 10, 0)]], deps=[[], [0]], buffer_bytes=10))
    assert found["allocated"] == [0, 4]


def test_two_channels_let_a_load_and_a_store_overlap() -> None:
    found = times(program([[(4, 1, 6, 1, 1)], [(4, 1, 6, 1, 1)]]))
    assert found["load_end"] == [4, 8]
    assert found["store_start"] == [5, 11]


def test_one_channel_serves_who_asked_first() -> None:
    # Load 1 asks at 4 and has the channel until 8; store 0 asked at 5 and runs 8-14; load 2 asked at 8.
    found = times(program([[(4, 1, 6, 1, 1)], [(4, 1, 6, 1, 1)], [(4, 1, 6, 1, 1)]], dram_channels=1))
    assert found["load_end"] == [4, 8, 18]
    assert found["store_start"] == [8, 18, 24]


def test_one_channel_serves_the_store_first_when_both_ask_at_the_same_tick() -> None:
    # operator 1 waits for operator 0, which stores nothing, so it asks for its load at 5, as does
    # the store of the tile that computes in no time
    made = program([[(4, 1, 0, 1, 0)], [(0, 0, 3, 1, 1)], [(2, 1, 0, 1, 0)]], deps=[[], [0], [0]], dram_channels=1)
    found = times(made)
    assert found["store_start"][1] == 5
    assert found["allocated"][2] == 5
    assert found["load_end"][2] == 10  # 5 + 3 of the store + 2


def test_waiting_for_a_position_waits_for_everything_before_it() -> None:
    # operator 2 waits for position 2; operator 0 (stored at 12) is the last of both to end
    found = times(program([[(1, 1, 10, 1, 1)], [(1, 1, 0, 1, 0)], [(1, 1, 0, 1, 0)]], wait_for=[0, 0, 2]))
    assert found["dependencies_met"] == [0, 1, 12]


def test_the_host_issues_operators_one_after_the_other() -> None:
    found = times(program([[(1, 1, 0, 1, 0)]] * 3, launch_ticks=[5, 5, 5]))
    assert found["dependencies_met"] == [5, 10, 15]


def test_a_synchronising_host_issues_again_when_everything_is_complete() -> None:
    # operator 0: issued at 5, load 5-6, compute 6-7, store 7-17; then the host takes 5 more
    found = times(program([[(1, 1, 10, 1, 1)], [(1, 1, 0, 1, 0)]], launch_ticks=[5, 5], host_wait=[0, 1]))
    assert found["dependencies_met"] == [5, 22]


def test_without_a_tile_there_is_no_time() -> None:
    for engine in ("python", "simpy", "cycle", "native"):
        timeline = get(engine).run(program([], quantised=True))
        assert len(timeline) == 0
        assert timeline.makespan == 0


@pytest.mark.parametrize("engine", ["simpy", "cycle", "native"])
def test_the_other_engines_agree_on_these_rules(engine: str) -> None:
    made = program(
        [[(4, 1, 0, 1, 0)], [(0, 0, 3, 9, 9), (5, 2, 1, 30, 20)], [(2, 1, 0, 64, 0)]],
        deps=[[], [0], [0]],
        host_wait=[0, 0, 1],
        wait_for=[0, 1, 0],
        launch_ticks=[1, 1, 1],
        dram_channels=1,
        quantised=True,
    )
    assert get(engine).run(made) == get("python").run(made)
