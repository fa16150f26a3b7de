from __future__ import annotations

from hypothesis import given
from trace_strategies import traces

from simdevice.analysis.liveness import LiveStorage, liveness
from simdevice.records import Cost, OpTable, Origin, Signature, TensorSpec, Trace, TraceBuilder


def spec(elements: int, is_weight: bool = False) -> TensorSpec:
    return TensorSpec((elements,), "int8", is_weight)


def build(
    *calls: tuple[str, list[tuple[int, int]], list[tuple[int, int]]], weights: frozenset[int] = frozenset()
) -> Trace:
    """Calls as (category, inputs, outputs), a tensor as (storage, bytes)."""
    builder = TraceBuilder(OpTable(lambda s: Cost(s.name, 0, 0, 0)))
    for category, inputs, outputs in calls:
        signature = Signature(
            category,
            tuple(spec(n, i in weights) for i, n in inputs),
            tuple(spec(n, i in weights) for i, n in outputs),
        )
        builder.add(signature, [i for i, _ in (*inputs, *outputs)])
    return builder.finish(Origin("test"))


def test_a_storage_lives_from_its_maker_to_its_last_reader() -> None:
    trace = build(
        ("elementwise", [(0, 10)], [(1, 100)]),
        ("elementwise", [(1, 100)], [(2, 1000)]),
        ("elementwise", [(2, 1000)], [(3, 1)]),
    )
    live = liveness(trace)
    # row 0: the input (10) and its result (100); row 1: 100 and 1000; row 2: 1000 and 1
    assert live.bytes_at.tolist() == [110, 1100, 1001]
    assert (live.peak_bytes, live.peak_row) == (1100, 1)
    assert live.alive(1) == [LiveStorage(2, 1000, 1, 2, False), LiveStorage(1, 100, 0, 1, False)]


def test_what_the_trace_finds_is_alive_from_the_start_and_weights_to_the_end() -> None:
    trace = build(
        ("elementwise", [(0, 1)], [(1, 1)]),
        ("matmul", [(7, 100), (5, 10)], [(2, 1)]),
        ("elementwise", [(2, 1)], [(3, 1)]),
        weights=frozenset({7}),
    )
    live = liveness(trace)
    # row 0: 1 + 1, and already 100 + 10; row 1: 100 + 10 + 1; row 2: 100 + 1 + 1
    assert live.bytes_at.tolist() == [112, 111, 102]
    assert live.weight_bytes == 100
    assert live.alive(0)[0] == LiveStorage(7, 100, -1, 2, True)


def test_views_neither_grow_nor_shrink_a_storage() -> None:
    trace = build(
        ("view", [(0, 8)], [(0, 4)]),  # a slice
        ("view", [(0, 4)], [(0, 400)]),  # an expansion
        ("elementwise", [(0, 400)], [(1, 400)]),
    )
    assert liveness(trace).bytes_at.tolist() == [8, 8, 408]


def test_an_unread_result_counts_while_it_is_made_and_untracked_tensors_never() -> None:
    trace = build(("creation", [], [(0, 5), (-1, 99)]), ("creation", [], [(1, 7)]))
    assert liveness(trace).bytes_at.tolist() == [5, 7]


def test_an_empty_trace_needs_nothing() -> None:
    live = liveness(build())
    assert (live.peak_bytes, live.peak_row, live.weight_bytes) == (0, -1, 0)


@given(traces())
def test_bytes_alive_are_the_sum_of_what_is_alive(trace: Trace) -> None:
    live = liveness(trace)
    for row in range(len(trace)):
        assert live.bytes_at[row] == sum(storage.nbytes for storage in live.alive(row))
