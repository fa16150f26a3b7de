from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from trace_strategies import traces

from simdevice.errors import FileFormatError, SpecError
from simdevice.records import Cost, OpTable, Origin, Signature, TensorSpec, Trace, TraceBuilder

X = TensorSpec((2, 3), "float32")
W = TensorSpec((3, 4), "bfloat16", is_weight=True)
Y = TensorSpec((2, 4), "float32")


@pytest.fixture
def trace() -> Trace:
    """One product, then the same product again, in two scopes."""
    builder = TraceBuilder(OpTable(lambda s: Cost("matmul", 48, 48, 32, 24)))
    product = Signature("aten.mm", (X, W), (Y,), (("transposed", False),))
    builder.add(product, (1, 0, 2), scope=builder.scope("a"))
    builder.add(product, (1, 0, 3), phase=1, scope=builder.scope("b"))
    return builder.finish(Origin("dispatch", "meta", versions=(("torch", "2.13.0"),), capture_s=0.25, notes=("n",)))


@pytest.mark.parametrize("ending", ["json", "npz", "trace"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(made=traces())
def test_a_trace_saved_and_loaded_is_equal(made: Trace, ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"t.{ending}"
    made.save(path)
    assert Trace.load(path) == made


def test_saving_leaves_out_signatures_and_scopes_that_no_row_uses(trace: Trace, tmp_path: Path) -> None:
    trace.table.append(Signature("aten.unused", (), ()), Cost("view", 0, 0, 0))
    trace.save(tmp_path / "t.json")
    assert len(Trace.load(tmp_path / "t.json").table) == 1


def test_a_trace_without_operators_is_a_trace(tmp_path: Path) -> None:
    empty = TraceBuilder(OpTable(lambda s: Cost("view", 0, 0, 0))).finish(Origin("dispatch"))
    for ending in ("json", "npz"):
        empty.save(tmp_path / f"t.{ending}")
        assert Trace.load(tmp_path / f"t.{ending}") == empty


def test_a_million_calls_fit_in_a_small_columnar_file(trace: Trace, tmp_path: Path) -> None:
    rows = trace.rows
    many = Trace(
        trace.table,
        type(rows)(*(np.tile(getattr(rows, n), 500_000) for n in rows.__dataclass_fields__)),
        trace.scopes,
        trace.origin,
    )
    many.save(tmp_path / "t.npz")
    assert Trace.load(tmp_path / "t.npz") == many
    assert (tmp_path / "t.npz").stat().st_size < 200_000


def test_a_failed_save_leaves_the_old_file_and_nothing_else(
    trace: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.json"
    path.write_text("old")

    def fail(*args: object, **kwargs: object) -> None:
        raise RuntimeError("disk full")

    monkeypatch.setattr(json, "dump", fail)
    with pytest.raises(RuntimeError, match="disk full"):
        trace.save(path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def edit(trace: Trace, path: Path, change: str) -> None:
    """Save a trace, then break the file by a statement over its `data`."""
    trace.save(path)
    data = json.loads(path.read_text())
    exec(change, {"data": data})
    path.write_text(json.dumps(data))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("data['format'] = 'other/1'", "no trace: expected format 'simacc-trace/1', got 'other/1'"),
        ("del data['rows']", "a damaged trace: no 'rows'"),
        ("data['rows']['tensors'].pop()", "a damaged trace: expected 6 tensor ids, got 5"),
        ("data['rows']['signature'][0] = 7", r"a damaged trace: a signature index is not in 0\.\.0"),
        ("data['rows']['signature'][0] = 0.5", "a damaged trace: column 'signature' is not a list of whole numbers"),
        ("data['rows']['phase'][0] = 300", r"a damaged trace: a phase index is not in 0\.\.2"),
        ("data['rows']['scope'].append(0)", "a damaged trace: 2 operators, 2 phases, 3 scopes"),
        ("data['rows']['tensors'][0] = 10 ** 30", "a damaged trace: .*"),
        ("data['signatures'][0]['inputs'][0]['shape'] = [-1]", r"a damaged trace: shape \[-1\]"),
        ("data['signatures'][0]['inputs'][0]['shape'] = ['2']", "a damaged trace: expected a length, got '2'"),
        ("data['signatures'][0]['inputs'][0]['dtype'] = 'real'", "a damaged trace: unknown dtype 'real'"),
        ("data['signatures'][0]['cost']['category'] = 'fun'", "a damaged trace: unknown category 'fun'"),
        ("data['signatures'][0]['cost']['bytes_read'] = -1", "a damaged trace: a negative cost"),
        ("data['signatures'] = 3", "a damaged trace: .*"),
        ("data['origin'] = None", "a damaged trace: .*"),
        ("data.clear()", "no trace: expected format 'simacc-trace/1', got None"),
    ],
)
def test_a_damaged_file_is_one_line_that_names_it(trace: Trace, tmp_path: Path, change: str, reason: str) -> None:
    path = tmp_path / "t.json"
    edit(trace, path, change)
    with pytest.raises(FileFormatError, match=f"^{path}: {reason}$"):
        Trace.load(path)


@pytest.mark.parametrize("content", [b"", b"{", b"[1, 2]", b"PK\x03\x04 no zip", b"\xff\xfe\x00", b"[" * 100_000])
@pytest.mark.parametrize("ending", ["json", "npz"])
def test_what_is_no_trace_at_all_is_one_line(content: bytes, ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"t.{ending}"
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match=f"^{path}: [^\n]*$"):
        Trace.load(path)


def test_what_is_no_archive_is_said_without_numpys_advice(tmp_path: Path) -> None:
    path = tmp_path / "t.npz"
    path.write_bytes(b"anything")
    with pytest.raises(FileFormatError, match=f"^{path}: a damaged trace: not an .npz archive of arrays$"):
        Trace.load(path)


def test_every_truncation_of_a_columnar_file_is_noticed(trace: Trace, tmp_path: Path) -> None:
    path = tmp_path / "t.npz"
    trace.save(path)
    whole = path.read_bytes()
    for length in range(0, len(whole), 37):
        path.write_bytes(whole[:length])
        with pytest.raises(FileFormatError, match=f"^{path}: [^\n]*$"):
            Trace.load(path)


def test_a_missing_file_says_so(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match=f"^cannot read {tmp_path}/none.json: No such file or directory$"):
        Trace.load(tmp_path / "none.json")


SIMFRONT = {
    "format": "simfront-trace/1",
    "model": "m",
    "route": "export",
    "workload": {"tokens": 2},
    "capture_s": 0.5,
    "ops": [
        {
            "name": "aten.t",
            "inputs": [{"tid": "w", "shape": [4, 3], "itemsize": 2, "param": True}],
            "outputs": [{"tid": "w", "shape": [3, 4], "itemsize": 2, "param": True}],
            "attrs": {},
            "category": "view",
            "flops": 0,
            "bytes_read": 0,
            "bytes_written": 0,
            "weight_bytes": 0,
        },
        {
            "name": "aten.mm",
            "inputs": [
                {"tid": "x", "shape": [2, 3], "itemsize": 2, "param": False},
                {"tid": "w", "shape": [3, 4], "itemsize": 2, "param": True},
            ],
            "outputs": [{"tid": "y", "shape": [2, 4], "itemsize": 2, "param": False}],
            "attrs": {"groups": [1, {"k": 2}]},
            "category": "matmul",
            "flops": 48,
            "bytes_read": 36,
            "bytes_written": 16,
            "weight_bytes": 24,
        },
        {
            "name": "aten.odd",
            "inputs": [],
            "outputs": [{"tid": "z", "shape": [2], "itemsize": 4, "param": False}],
            "attrs": {},
            "category": "unknown",
            "flops": 0,
            "bytes_read": 0,
            "bytes_written": 0,
            "weight_bytes": 0,
        },
    ],
}


def test_simfront_traces_are_read_with_their_own_costs(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(json.dumps(SIMFRONT))
    trace = Trace.load(path)
    assert [op.name for op in trace.ops] == ["aten.t", "aten.mm", "aten.odd"]
    assert [[t.id for t in (*op.inputs, *op.outputs)] for op in trace.ops] == [[0, 0], [1, 0, 2], [3]]
    assert (trace.flops, trace.bytes, trace.weight_bytes) == (48, 52, 24)
    assert trace.ops[1].inputs[1].is_weight
    assert trace.ops[1].inputs[1].nbytes == 24
    assert trace.unknown() == {"aten.odd": "no cost rule in the program that wrote this file"}
    assert trace.is_lower_bound
    assert trace.origin.frontend == "export"
    assert trace.origin.workload == "m tokens=2"
    trace.save(tmp_path / "again.npz")
    assert Trace.load(tmp_path / "again.npz") == trace


def test_a_simfront_category_or_element_size_without_counterpart_is_named(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    for field, value, reason in (
        ("category", "magic", "unknown category 'magic' of 'aten.t'"),
        (
            "outputs",
            [{"tid": "w", "shape": [1], "itemsize": 3, "param": False}],
            "expected an element size of .*, got 3",
        ),
    ):
        broken = {**SIMFRONT, "ops": [{**SIMFRONT["ops"][0], field: value}]}  # type: ignore[index]
        path.write_text(json.dumps(broken))
        with pytest.raises(FileFormatError, match=f"^{path}: {reason}$"):
            Trace.load(path)


def test_a_path_that_cannot_be_written_is_one_line_that_names_it(trace: Trace, tmp_path: Path) -> None:
    for path, reason in ((tmp_path / "no" / "t.json", "No such file or directory"), (tmp_path, "it is a folder")):
        with pytest.raises(SpecError, match=f"^cannot write {re.escape(str(path))}: {reason}"):
            trace.save(path)
    assert not list(tmp_path.iterdir())
