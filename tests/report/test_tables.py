"""Tables of a run written by hand: which rows, which sums, and how they are shown."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from io import StringIO

import numpy as np
import pytest
from rich.console import Console

from simdevice import report
from simdevice.hardware import NullSpec
from simdevice.records import Cost, Crossings, OpTable, Origin, Run, Signature, TensorSpec, TraceBuilder, row_units

X, W = TensorSpec((2, 3), "float32"), TensorSpec((3, 4), "float32", is_weight=True)
Y = TensorSpec((2, 4), "float32")

MM = Signature("aten.mm", (X, W), (Y,))
RELU = Signature("aten.relu", (Y,), (Y,))
VIEW = Signature("aten.t", (W,), (TensorSpec((4, 3), "float32", True),))
ODD = Signature("mine.odd", (Y,), (Y,))
UP = Signature("simacc.copy_to_device", (), (X,))
DOWN = Signature("simacc.copy_to_host", (Y,), ())

COSTS = {
    MM: Cost("matmul", 48, 72, 32, weight_bytes=48),
    RELU: Cost("elementwise", 8, 32, 32),
    VIEW: Cost("view", 0, 0, 0),
    ODD: Cost("unknown", None, 32, 32, reason="no cost rule"),
    UP: Cost("transfer", 0, 0, 24),
    DOWN: Cost("transfer", 0, 32, 0),
}

NS = 1_000


@pytest.fixture
def run():
    """Seven rows of 10, 0, 40, 20, 5, 15 and 10 ns, one after the other."""
    builder = TraceBuilder(OpTable(COSTS.__getitem__))
    first, second = builder.scope("net.layers.0.linear"), builder.scope("net.layers.1")
    builder.add(UP, [0])
    builder.add(VIEW, [1, 1], scope=first)
    builder.add(MM, [0, 1, 2], scope=first)
    builder.add(MM, [0, 1, 3], scope=second, phase=1)
    builder.add(RELU, [3, 4], scope=second)
    builder.add(ODD, [4, 5])
    builder.add(DOWN, [5])
    busy = np.array([10, 0, 40, 20, 5, 15, 10], np.int64) * NS
    end = np.cumsum(busy)
    return run_of(
        builder.finish(Origin("test", workload="toy")),
        start_ps=end - busy,
        end_ps=end,
        busy_ps=busy,
        makespan_ps=100 * NS,
        bounds_ps={"unfused": 100 * NS, "compute": 50 * NS, "memory": 25 * NS, "link": 20 * NS},
        bound=np.array([2, 0, 1, 1, 1, 1, 2], np.uint8),
        bound_names=("nothing", "compute", "link"),
    )


def run_of(trace, start_ps, end_ps, busy_ps, makespan_ps, *, bounds_ps=None, bound=None, bound_names=("nothing",)):
    """A run of a machine that is none."""
    rows = np.zeros(len(trace), np.uint8)
    return Run(
        trace=trace,
        device="part",
        spec=NullSpec(name="part"),
        start_ps=start_ps,
        end_ps=end_ps,
        busy_ps=busy_ps,
        makespan_ps=makespan_ps,
        bounds_ps=bounds_ps or {},
        bound=rows if bound is None else bound,
        bound_names=bound_names,
        side=rows,
        unit=row_units(trace),
        device_index=rows,
    )


def facts(rows):
    return [(r.name, r.operators, r.time_s, r.flops, r.moved_bytes, r.is_lower_bound) for r in rows]


def test_categories_come_by_time_and_sum_to_the_run(run):
    rows = report.by_category(run)
    assert facts(rows) == [
        ("matmul", 2, 60e-9, 96, 208, False),
        ("transfer", 2, 20e-9, 0, 56, False),
        ("unknown", 1, 15e-9, 0, 64, True),
        ("elementwise", 1, 5e-9, 8, 64, False),
        ("view", 1, 0.0, 0, 0, False),
    ]
    assert [r.share for r in rows] == [0.6, 0.2, 0.15, 0.05, 0.0]
    assert sum(r.moved_bytes for r in rows) == run.trace.bytes
    assert sum(r.flops for r in rows) == run.trace.flops


def test_phases_come_in_their_own_order(run):
    assert [(r.name, r.operators, r.time_s) for r in report.by_phase(run)] == [
        ("forward", 6, 80e-9),
        ("backward", 1, 20e-9),
    ]


@pytest.mark.parametrize(
    ("depth", "rows"),
    [
        (1, [("(top level)", 3), ("net", 4)]),
        (3, [("(top level)", 3), ("net.layers.0", 2), ("net.layers.1", 2)]),
        (9, [("(top level)", 3), ("net.layers.0.linear", 2), ("net.layers.1", 2)]),
    ],
)
def test_modules_are_cut_at_a_depth_and_come_by_first_use(run, depth, rows):
    assert [(r.name, r.operators) for r in report.by_module(run, depth)] == rows


def test_operators_are_joined_by_name(run):
    assert [(r.name, r.operators) for r in report.by_operator(run)][:2] == [("aten.mm", 2), ("mine.odd", 1)]


def test_what_limits_an_operator_leaves_out_what_takes_no_time(run):
    assert [(r.name, r.operators, r.time_s) for r in report.by_bound(run)] == [
        ("compute", 4, 80e-9),
        ("link", 2, 20e-9),
    ]


def test_top_operators_join_equal_shapes_and_name_their_bound(run):
    top = report.top_operators(run, 2)
    assert [(r.name, r.shapes, r.calls, r.time_s, r.flops, r.bound) for r in top] == [
        ("aten.mm", "2x3, 3x4 float32", 2, 60e-9, 96, "compute"),
        ("mine.odd", "2x4 float32", 1, 15e-9, 0, "compute"),
    ]
    assert len(report.top_operators(run, 99)) == 5  # the view took no time


def test_many_tensors_are_shortened(run):
    specs = (X, TensorSpec((), "int64"), TensorSpec((5,), "int64"), Y, Y)
    wide = Signature("mine.wide", specs, (Y,))
    builder = TraceBuilder(OpTable(lambda s: Cost("elementwise", 1, 1, 1)))
    builder.add(wide, range(6))
    one = np.array([NS], np.int64)
    lone = run_of(builder.finish(Origin("test")), one * 0, one, one, NS, bound=np.zeros(1, np.uint8))
    assert report.top_operators(lone)[0].shapes == "2x3 float32, scalar, 5 int64, +2"
    assert [(row.name, row.operators) for row in report.by_bound(lone)] == [("nothing", 1)]


def test_unknown_operators_are_named_with_their_reason(run):
    assert report.unknown_operators(run) == [report.Unknown("mine.odd", 1, 15e-9, 64, "no cost rule")]


def test_transfers_are_told_apart_by_direction(run):
    assert report.transfers(run) == [
        report.Transfer("to device", 1, 24, 10e-9),
        report.Transfer("to host", 1, 32, 10e-9),
    ]


def test_where_a_host_runs_a_part_every_crossing_is_a_transfer(run):
    crossings = (Crossings("to device", 0, 0, 0), Crossings("to host", 3, 96, 30 * NS))
    assert report.transfers(replace(run, crossings=crossings)) == [report.Transfer("to host", 3, 96, 30e-9)]


def test_summary_holds_the_totals(run):
    summary = report.summarise(run)
    assert (summary.device, summary.workload, summary.operators, summary.free_operators) == ("part", "toy", 7, 1)
    assert (summary.time_s, summary.flops, summary.is_lower_bound) == (100e-9, 104, True)
    assert (summary.bytes_read, summary.bytes_written, summary.weight_bytes) == (240, 152, 96)
    # operators 5 and 6: the weight (48) with two results (32 each); 3 and 4 hold 24 + 48 + 32
    assert (summary.peak_live_bytes, summary.memory_capacity_bytes) == (112, None)
    assert summary.utilisation == {"compute": 0.5, "memory": 0.25, "link": 0.2}
    assert summary.flops_per_s == 104 / 100e-9


def test_markdown_shows_lower_bounds_units_and_reasons(run):
    page = report.markdown(run)
    assert page.startswith("# toy on part\n\n- operators: 7 (1 of them free: views, synchronisation)\n- time: 100 ns\n")
    assert "- FLOPs: >= 104 FLOP\n" in page
    assert "| unknown | 1 | 15 ns | 15.0% | >= 0 | 64 B |\n" in page
    assert "| aten.mm | 2x3, 3x4 float32 | 2 | 60 ns | 60.0% | 96 | 208 B | compute |\n" in page
    assert "| mine.odd | 1 | 15 ns | 64 B | no cost rule |\n" in page


def test_markdown_tables_are_well_formed_whatever_the_names():
    rows = [report.Unknown("a|b", 1, 0.0, 0, "two\nlines")]
    lines = report.to_markdown(rows).splitlines()
    assert lines == [
        "| name | calls | time | bytes | reason |",
        "| --- | ---: | ---: | ---: | --- |",
        r"| a\|b | 1 | 0 s | 0 B | two lines |",
    ]
    assert report.to_markdown([]) == ""


def test_json_says_what_the_tables_say(run):
    page = json.loads(report.json(run))
    assert page["flops"] == 104
    assert page["is_lower_bound"] is True
    assert page["by_category"] == report.to_dicts(report.by_category(run))
    assert page["unknown_operators"][0]["reason"] == "no cost rule"


def test_json_has_every_key_when_there_is_nothing_to_say():
    empty = np.empty(0, np.int64)
    nothing = run_of(TraceBuilder(OpTable(COSTS.__getitem__)).finish(Origin("test")), empty, empty, empty, 0)
    page = json.loads(report.json(nothing))
    assert (page["operators"], page["flops_per_s"], page["by_category"], page["transfers"]) == (0, 0.0, [], [])
    assert report.markdown(nothing).startswith("# A program on part\n")


def test_a_terminal_gets_every_table_and_no_markup_is_read_from_names(run):
    out = StringIO()
    report.print(run, console=Console(file=out, width=100))
    text = out.getvalue()
    for heading in ("By phase", "By category", "By module", "Top operators", "Host link", "Operators without a known"):
        assert heading in text
    wild = Console(file=(out := StringIO()), width=100)
    wild.print(report.to_rich([report.Unknown("net[bold]", 1, 0.0, 0, "[/]")], "t"))
    assert "net[bold]" in out.getvalue()


def test_reporting_needs_neither_torch_nor_rich_until_it_prints():
    code = "import sys, simdevice.report; sys.exit(any(m in sys.modules for m in ('torch', 'rich')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
