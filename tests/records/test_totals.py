"""Sums over a trace by what its operators have in common, on a trace small enough to add up by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from trace_strategies import traces

from simdevice.errors import UnknownNameError
from simdevice.records import Cost, Groups, OpTable, Origin, Rows, Signature, TensorSpec, Totals, Trace, TraceBuilder

X, WIDE = TensorSpec((2, 2), "float32"), TensorSpec((4, 4), "float32")
MM, WIDE_MM = Signature("aten.mm", (X, X), (X,)), Signature("aten.mm", (WIDE, WIDE), (WIDE,))
ODD = Signature("mine.odd", (X,), (X,))
COSTS = {
    MM: Cost("matmul", 16, 32, 16, weight_bytes=16),
    WIDE_MM: Cost("matmul", 128, 128, 64),
    ODD: Cost("unknown", None, 16, 16, reason="no cost rule"),
}
WAYS = ("all", "category", "module", "operator", "phase", "signature")


@pytest.fixture
def trace() -> Trace:
    """Two small products and a large one, one of them backward, then an operator that no rule knows."""
    builder = TraceBuilder(OpTable(COSTS.__getitem__))
    inner, outer = builder.scope("net.layers.0"), builder.scope("net.head")
    builder.add(MM, (0, 1, 2), scope=inner)
    builder.add(MM, (0, 1, 3), scope=outer, phase=1)
    builder.add(WIDE_MM, (4, 5, 6), scope=outer)
    builder.add(ODD, (2, 7))
    return builder.finish(Origin("test"))


# calls, FLOPs, bytes read, bytes written, bytes of weights, unknown
SMALL, LARGE, UNKNOWN = (1, 16, 32, 16, 16, 0), (1, 128, 128, 64, 0, 0), (1, 0, 16, 16, 0, 1)


def total(*parts: tuple[int, ...]) -> Totals:
    return Totals(*(sum(column) for column in zip(*parts, strict=True)))


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ("all", {"all": total(SMALL, SMALL, LARGE, UNKNOWN)}),
        ("category", {"matmul": total(SMALL, SMALL, LARGE), "unknown": total(UNKNOWN)}),
        ("operator", {"aten.mm": total(SMALL, SMALL, LARGE), "mine.odd": total(UNKNOWN)}),
        ("signature", {MM: total(SMALL, SMALL), WIDE_MM: total(LARGE), ODD: total(UNKNOWN)}),
        ("phase", {"forward": total(SMALL, LARGE, UNKNOWN), "backward": total(SMALL)}),
        (
            "module",
            {"(top level)": total(UNKNOWN), "net.layers.0": total(SMALL), "net.head": total(SMALL, LARGE)},
        ),
    ],
)
def test_totals_of_each_way_to_group(trace: Trace, by: str, expected: dict[object, Totals]) -> None:
    assert list(trace.totals(by).items()) == list(expected.items())


def test_modules_are_cut_at_a_depth(trace: Trace) -> None:
    assert trace.totals("module", depth=1) == {"(top level)": total(UNKNOWN), "net": total(SMALL, SMALL, LARGE)}
    assert list(trace.totals("module", depth=2)) == ["(top level)", "net.layers", "net.head"]


def test_a_callers_own_groups_are_summed_and_keys_without_rows_left_out(trace: Trace) -> None:
    groups = Groups(("even", "never", "odd"), np.array([0, 2, 0, 2]))
    assert trace.totals(groups) == {"even": total(SMALL, LARGE), "odd": total(SMALL, UNKNOWN)}
    assert groups.sums(np.array([1, 10, 100, 1000])).tolist() == [101, 0, 1010]


def test_sums_are_exact_where_floats_are_not() -> None:
    groups = Groups(("one",), np.zeros(2, np.int64))
    assert groups.sums(np.array([2**53, 1])).tolist() == [2**53 + 1]


def test_the_traces_own_sums_are_its_totals(trace: Trace) -> None:
    assert trace.total == total(SMALL, SMALL, LARGE, UNKNOWN)
    assert (trace.flops, trace.matmul_flops, trace.is_lower_bound) == (160, 160, True)
    assert (trace.bytes_read, trace.bytes_written, trace.bytes, trace.weight_bytes) == (208, 112, 320, 32)
    assert trace.flops_in("unknown", "attention") == 0


@pytest.mark.parametrize("repeats", [1, 100])
def test_long_traces_add_up_as_short_ones_do(trace: Trace, repeats: int) -> None:
    # 400 rows are counted by signature; 4 rows, fewer than 3 groups x 3 signatures, are added one by one
    long = Trace(trace.table, Rows.concatenate([trace.rows] * repeats), trace.scopes)
    (module, first), *_ = long.totals("module").items()
    assert (module, first) == ("(top level)", total(*[UNKNOWN] * repeats))
    assert long.totals("operator")["aten.mm"] == total(*[SMALL, SMALL, LARGE] * repeats)


def test_an_empty_trace_has_no_groups_and_zeros() -> None:
    nothing = TraceBuilder(OpTable(COSTS.__getitem__)).finish(Origin("test"))
    assert [nothing.totals(by) for by in WAYS] == [{}] * len(WAYS)
    assert nothing.total == Totals()


def test_another_way_to_group_is_refused_with_the_nearest(trace: Trace) -> None:
    with pytest.raises(UnknownNameError, match=r"^unknown way to group operators 'modul': did you mean 'module'\?$"):
        trace.totals("modul")


@given(traces())
def test_whatever_the_groups_they_add_up_to_the_same(trace: Trace) -> None:
    columns = [trace.per_op(name).tolist() for name in ("flops", "bytes_read", "bytes_written", "weight_bytes")]
    rows = [(1, max(f, 0), *moved, int(f < 0)) for f, *moved in zip(*columns, strict=True)]
    expected = total(*rows) if rows else Totals()
    for by in WAYS:
        assert total((0,) * 6, *map(fields, trace.totals(by).values())) == expected


def fields(totals: Totals) -> tuple[int, ...]:
    return tuple(getattr(totals, name) for name in Totals.__dataclass_fields__)
