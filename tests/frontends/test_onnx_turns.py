"""Turns that are the last one again: the trace is that of a walk through every turn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from onnx_models import save

import simdevice as sd
from simdevice.records import Trace

FEW = "simdevice.frontends.onnx.turns.FEW_NODES"

GO_ON = "co = Identity(ci)"
LOOPS = {
    "a body": """g (float[4, 8] x) => (float[4, 8] y, float[N, 4, 8] z) <int64 n = {7}, bool c = {1}>
        { y, z = Loop(n, c, x)<body = b (int64 i, bool ci, float[4, 8] v) => (bool co, float[4, 8] vo, float[4, 8] s)
            { co = Identity(ci)  t = Tanh(v)  vo = Add(t, x)  s = Exp(vo) }> }""",
    "its number is an index": """g (float[4, 8] x) => (float[8] y) <int64 n = {9}, bool c = {1}, float zero = {0}>
        { e = Expand(zero, w)  w = Constant<value_ints = [8]>()
          y = Loop(n, c, e)<body = b (int64 i, bool ci, float[8] v) => (bool co, float[8] vo)
            { co = Identity(ci)  k = Constant<value_int = 4>()  m = Mod(i, k)  r = Gather(x, m)  vo = Add(v, r) }> }""",
    "its number bounds a slice": """g (float[64, 8] x) => (float[1, 8] y) <int64 n = {9}, bool c = {1}>
        { one = Constant<value_ints = [1]>()  nil = Constant<value_ints = [0]>()  e = Slice(x, nil, one)
          y = Loop(n, c, e)<body = b (int64 i, bool ci, float[1, 8] v) => (bool co, float[1, 8] vo)
            { co = Identity(ci)  f = Reshape(i, one)  t = Add(f, one)  r = Slice(x, f, t)  vo = Add(v, r) }> }""",
    "a counter is carried": """g (float[4, 8] x) => (float[4, 8] y, int64[1] z) <int64 n = {9}, bool c = {1}>
        { one = Constant<value_ints = [1]>()
          y, z = Loop(n, c, x, one)<body = b (int64 i, bool ci, float[4, 8] v, int64[1] k)
                => (bool co, float[4, 8] vo, int64[1] ko)
            { co = Identity(ci)  ko = Add(k, one)  r = Gather(x, ko)  s = ReduceSum(r)  vo = Add(v, s) }> }""",
    "two are swapped": """g (float[4] x, float[4] z) => (float[4] y) <int64 n = {8}, bool c = {1}>
        { y, w = Loop(n, c, x, z)<body = b (int64 i, bool ci, float[4] p, float[4] q)
                => (bool co, float[4] po, float[4] qo) { co = Identity(ci)  po = Identity(q)  qo = Add(p, q) }> }""",
    "one is handed on as it is": """g (float[4] x, float[4] z) => (float[4] y) <int64 n = {8}, bool c = {1}>
        { y, w = Loop(n, c, x, z)<body = b (int64 i, bool ci, float[4] p, float[4] q)
                => (bool co, float[4] po, float[4] qo) { co = Identity(ci)  qo = Identity(q)  po = Add(p, z) }> }""",
    "it grows": """g (float[1, 4] x) => (float[N, 4] y) <int64 n = {8}, bool c = {1}>
        { y = Loop(n, c, x)<body = b (int64 i, bool ci, float[M, 4] v) => (bool co, float[K, 4] vo)
            { co = Identity(ci)  vo = Concat<axis = 0>(v, x) }> }""",
    "a counter ends it": """g (float[4] x) => (float[4] y) <int64 n = {100}, bool c = {1}>
        { one = Constant<value_ints = [1]>()  most = Constant<value_ints = [9]>()
          y, z = Loop(n, c, x, one)<body = b (int64 i, bool ci, float[4] v, int64[1] k)
                => (bool co, float[4] vo, int64[1] ko)
            { ko = Add(k, one)  less = Less(ko, most)  co = Squeeze(less)  vo = Tanh(v) }> }""",
    "a sequence is carried": """g (float[4] x) => (float[4] y) <int64 n = {8}, bool c = {1}>
        { s = SequenceConstruct(x, x)  nil = Constant<value_int = 0>()
          o = Loop(n, c, s)<body = b (int64 i, bool ci, seq(float[4]) v) => (bool co, seq(float[4]) vo)
            { co = Identity(ci)  a = SequenceAt(v, nil)  t = Tanh(a)  e = SequenceErase(v, nil)
              vo = SequenceInsert(e, t) }>
          y = SequenceAt(o, nil) }""",
    "one in another": """g (float[2] x) => (float[2] y) <int64 n = {6}, int64 k = {7}, bool c = {1}>
        { y = Loop(n, c, x)<body = b (int64 i, bool ci, float[2] v) => (bool co, float[2] vo)
            { co = Identity(ci)
              vo = Loop(k, c, v)<body = bb (int64 j, bool cj, float[2] w) => (bool ck, float[2] wo)
                { ck = Identity(cj)  t = Tanh(w)  wo = Add(t, x) }> }> }""",
    "a scan": """g (float[9, 4] x, float[4] h) => (float[4] y, float[9, 4] z)
        { y, z = Scan<num_scan_inputs = 1, body = b (float[4] s, float[4] v) => (float[4] so, float[4] o)
            { t = Add(s, v)  so = Tanh(t)  o = Exp(so) }>(h, x) }""",
    "the last turn is another": """g (float[9, 8] x) => (float[8] y) <int64 n = {8}, bool c = {1}>
        { one = Constant<value_ints = [1]>()  two = Constant<value_ints = [3]>()  nil = Constant<value_ints = [0]>()
          e = ReduceSum<keepdims = 0>(x, nil)
          y = Loop(n, c, e)<body = b (int64 i, bool ci, float[8] v) => (bool co, float[8] vo)
            { co = Identity(ci)  f = Reshape(i, one)  t = Add(f, two)  r = Slice(x, f, t)
              q = ReduceSum<keepdims = 0>(r, nil)  vo = Add(v, q) }> }""",
    "its branches alternate": """g (float[4] x) => (float[4] y) <int64 n = {8}, bool c = {1}>
        { two = Constant<value_int = 2>()  nil = Constant<value_int = 0>()
          y = Loop(n, c, x)<body = b (int64 i, bool ci, float[4] v) => (bool co, float[4] vo)
            { co = Identity(ci)  m = Mod(i, two)  e = Equal(m, nil)
              vo = If<then_branch = t () => (float[4] p) { p = Tanh(v) },
                      else_branch = u () => (float[4] q) { q = Exp(v) }>(e) }> }""",
}
CHECKED = {"its number bounds a slice"}
WALKED = {"it grows", "a counter ends it", "the last turn is another", "its branches alternate"}


def calls(trace: Trace) -> list[tuple[Any, ...]]:
    """Every row with its storages, numbered as they come."""
    numbers: dict[int, int] = {}
    renumbered = [numbers.setdefault(t, len(numbers)) for t in trace.rows.tensors.tolist()]
    places = trace.rows.offsets(trace.table).tolist()
    return [(op.signature, renumbered[places[i] : places[i + 1]]) for i, op in enumerate(trace.ops)]


@pytest.mark.parametrize("name", LOOPS)
def test_repeated_turns_are_those_that_a_walk_takes(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(tmp_path, LOOPS[name])
    whole = sd.trace(path)
    repeated: list[int] = []

    def noted(turns: Any, *arguments: Any) -> Any:
        repeated.append(arguments[1])
        return again(turns, *arguments)

    from simdevice.frontends.onnx.turns import Turns

    again = Turns._again
    monkeypatch.setattr(Turns, "_again", noted)
    monkeypatch.setattr(FEW, 0)
    short = sd.trace(path)
    assert calls(short) == calls(whole)
    assert whole.unknown() == short.unknown() == {}
    assert bool(repeated) == (name not in WALKED)
    said = ("its turns are taken to be alike, as the first 2, the middle and the last one are",)
    assert tuple(n.partition(": ")[2] for n in short.origin.notes) == (said if name in CHECKED else ())


def test_a_counter_is_unknown_behind_turns_that_are_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = LOOPS["a counter is carried"].replace("y, z = Loop", "y, k = Loop")
    path = save(
        tmp_path,
        text.replace(
            "}> }", "}>  z = Identity(k)  r = ReduceSum<keepdims = 0>(x)  f = Expand(r, k)  w = Exp(f) }", 1
        ).replace("int64[1] z)", "int64[1] z, float[N] w)"),
    )
    # it counted from 1, 9 times
    assert sd.trace(path).ops[-1].outputs[0].shape == (10,)
    monkeypatch.setattr(FEW, 0)
    assert "onnx.Exp" in sd.trace(path).unknown()


def chain(nodes: int, turns: int, *, kind: str = "Loop") -> str:
    """A loop whose body is so many nodes one after the other."""
    body = "  ".join(f"t{k + 1} = {('Tanh', 'Exp')[k % 2]}(t{k})" for k in range(nodes))
    if kind == "Scan":
        return f"""g (float[{turns}, 8] x, float[8] h) => (float[8] y, float[{turns}, 8] z)
            {{ y, z = Scan<num_scan_inputs = 1, body = b (float[8] s, float[8] v) => (float[8] t{nodes}, float[8] o)
                {{ t0 = Add(s, v)  {body}  o = Identity(t{nodes}) }}>(h, x) }}"""
    return f"""g (float[8] x) => (float[8] y) <int64 n = {{{turns}}}, bool c = {{1}}>
        {{ y = Loop(n, c, x)<body = b (int64 i, bool ci, float[8] t0) => (bool co, float[8] t{nodes})
            {{ co = Identity(ci)  {body} }}> }}"""


@pytest.mark.parametrize(("kind", "counted", "free"), [("Loop", 40, 0), ("Scan", 41, 1)])
def test_rows_of_a_loop_are_bounded_and_the_note_says_so(
    kind: str, counted: int, free: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("simdevice.frontends.onnx.turns.MOST_ROWS", 2_000)
    monkeypatch.setattr(FEW, 100)
    trace = sd.trace(save(tmp_path, chain(40, 500, kind=kind)))
    # two turns are walked, and as many repeated as have 2,000 rows
    rows = counted + free
    turns = 2 + 2_000 // rows
    assert len(trace) == turns * rows
    assert trace.flops == turns * counted * 8
    assert trace.origin.notes == (f"{kind} '{kind}_0': {turns} of its 500 turns are shown",)


def test_loops_share_the_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simdevice.frontends.onnx.turns.MOST_ROWS", 100)
    monkeypatch.setattr(FEW, 10)
    body = "(int64 i, bool ci, float[8] v) => (bool co, float[8] vo) { co = Identity(ci)  vo = Tanh(v) }"
    text = f"""g (float[8] x) => (float[8] z) <int64 n = {{80}}, bool c = {{1}}>
        {{ y = Loop(n, c, x)<body = b {body}>  z = Loop(n, c, y)<body = d {body}> }}"""
    trace = sd.trace(save(tmp_path, text))
    # the first is whole, the second has two turns and 22 that are left of 100
    assert len(trace) == 80 + 2 + 22
    assert trace.origin.notes == ("Loop 'Loop_1': 24 of its 80 turns are shown",)


def test_turns_that_are_not_alike_are_walked_up_to_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simdevice.frontends.onnx.turns.MOST_NODES", 30)
    text = LOOPS["it grows"].replace("{8}", "{800}")
    trace = sd.trace(save(tmp_path, text))
    # two nodes in the body, of which one has a row
    assert len(trace) == 15
    assert trace.origin.notes == ("Loop 'Loop_0': 15 of its 800 turns are shown",)


@pytest.mark.slow
def test_ten_thousand_turns_of_five_hundred_nodes_are_a_million_rows(tmp_path: Path) -> None:
    trace = sd.trace(save(tmp_path, chain(500, 10_000)))
    assert len(trace) == 2 * 500 + 1_000_000
    assert trace.flops == len(trace) * 8
    assert trace.origin.notes == ("Loop 'Loop_0': 2,002 of its 10,000 turns are shown",)
