"""Trace files: readable JSON, and a compressed columnar form (`.npz`) for long traces. Both hold the same.

JSON, format "simacc-trace/1", is one object: `origin`, `scopes` (module paths), `signatures` (distinct
operator calls, each with its cost) and `rows` (columns: which signature, phase, scope, and the storage
ids of each call's inputs and outputs, flat). A trace is saved compacted: only the signatures it uses.

A trace on several devices says how many in `devices`, and has a column `device` (an index); without them all rows are
the first's.

A file may also hold the nodes its rows came from: `nodes` (each with what it says beyond the defaults) and `owner` (a
column: each row's node, -1 for none). A trace is the same with and without them.
"""

from __future__ import annotations

import json
import zipfile
import zlib
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simdevice.errors import FileFormatError, SimdeviceError, SpecError
from simdevice.files import atomic_write
from simdevice.records import simfront
from simdevice.records.dtypes import BITS
from simdevice.records.nodes import STATES, Node, NodeMap
from simdevice.records.op import CATEGORIES, PHASES, Cost, Signature, TensorSpec
from simdevice.records.table import OpTable
from simdevice.records.trace import Origin, Rows, Trace
from simdevice.records.work import Extra, Product, Window

__all__ = ["FORMAT", "load", "load_nodes", "save"]

FORMAT = "simacc-trace/1"
_COLUMNS = {"signature": np.int32, "phase": np.uint8, "scope": np.int32, "tensors": np.int64}
_HEADER = "header_json"
_MOST_DEVICES = 256  # what a byte holds
_SIZES = ("batch", "m", "k", "n", "a_bits", "b_bits", "out_bits", "a_bytes", "b_bytes", "out_bytes")
_OWNER = "owner"
_DEVICE = "device"


def save(trace: Trace, path: str | Path, nodes: NodeMap | None = None) -> None:
    """Write a trace: `.npz` is the columnar form, anything else JSON. The file appears whole or not at all.

    Raises:
        SpecError: nodes of another trace.
    """
    if nodes is not None and len(nodes.owner) != len(trace):
        raise SpecError(f"expected nodes of these {len(trace):,} rows, got those of {len(nodes.owner):,}")
    trace = trace.compact()
    header = _header(trace)
    if nodes is not None:
        header["nodes"] = [_pack_node(node) for node in nodes]
    if Path(path).suffix == ".npz":
        text = np.frombuffer(json.dumps(header).encode(), np.uint8)
        columns = {name: getattr(trace.rows, name) for name in _columns(header)}
        if nodes is not None:
            columns[_OWNER] = nodes.owner
        with atomic_write(path, "wb") as file:
            np.savez_compressed(file, allow_pickle=False, **{_HEADER: text}, **columns)
        return
    rows = {name: getattr(trace.rows, name).tolist() for name in _columns(header)}
    if nodes is not None:
        rows[_OWNER] = nodes.owner.tolist()
    with atomic_write(path) as file:
        json.dump({**header, "rows": rows}, file, separators=(",", ":"))


def load(path: str | Path) -> Trace:
    """Read a trace saved here, or a "simfront-trace/1" JSON file.

    Raises:
        FileFormatError: a file that can't be read, is damaged, or is of another kind.
    """
    return _whole(path)[0]


def load_nodes(path: str | Path) -> NodeMap | None:
    """The nodes in a trace's file; None for a file without them.

    Raises:
        FileFormatError: as `load`.
    """
    return _whole(path)[1]


def _whole(path: str | Path) -> tuple[Trace, NodeMap | None]:
    try:
        return _load_npz(path) if Path(path).suffix == ".npz" else _load_json(path)
    except OSError as error:
        raise FileFormatError(f"cannot read {path}: {error.strerror or error}") from None
    except SimdeviceError as error:
        raise FileFormatError(f"{path}: {error}") from None
    except (ValueError, TypeError, KeyError, AttributeError, IndexError, OverflowError, RecursionError) as error:
        reason = f"no {error}" if isinstance(error, KeyError) else " ".join(str(error).split())
        raise FileFormatError(f"{path}: a damaged trace: {reason}") from None


def _header(trace: Trace) -> dict[str, Any]:
    table = trace.table
    devices = int(trace.rows.device.max(initial=0)) + 1
    return {
        "format": FORMAT,
        "origin": asdict(trace.origin),
        "scopes": list(trace.scopes),
        **({"devices": devices} if devices > 1 else {}),
        "signatures": [_pack(s, c) for s, c in zip(table.signatures, table.costs, strict=True)],
    }


def _pack(signature: Signature, cost: Cost) -> dict[str, Any]:
    return {
        "name": signature.name,
        "inputs": [_pack_spec(t) for t in signature.inputs],
        "outputs": [_pack_spec(t) for t in signature.outputs],
        "attributes": dict(signature.attributes),
        "cost": _pack_cost(cost),
    }


def _pack_cost(cost: Cost) -> dict[str, Any]:
    """The rule's numbers, and its work where it states some."""
    packed = asdict(cost)
    for name in ("products", "extras", "lane_ops", "in_flight_ops"):
        if not packed[name]:
            del packed[name]
    return packed


def _pack_spec(spec: TensorSpec) -> dict[str, Any]:
    packed: dict[str, Any] = {"shape": list(spec.shape), "dtype": spec.dtype}
    if spec.is_weight:
        packed["weight"] = True
    return packed


def _load_json(path: str | Path) -> tuple[Trace, NodeMap | None]:
    text = Path(path).read_bytes()
    try:
        data = json.loads(text)
    except ValueError:
        raise FileFormatError("no trace: expected JSON or .npz") from None
    said = data.get("format") if isinstance(data, dict) else None
    if said == simfront.FORMAT:
        return simfront.unpack(data), None
    if said != FORMAT:
        raise FileFormatError(f"no trace: expected format {FORMAT!r}, got {said!r}")
    return _unpack(data, {name: np.array(data["rows"][name]) for name in _named(data)})


def _load_npz(path: str | Path) -> tuple[Trace, NodeMap | None]:
    try:
        with open(path, "rb") as raw, np.load(raw, allow_pickle=False) as file:
            data = json.loads(file[_HEADER].tobytes())
            columns = {name: file[name] for name in _named(data)}
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, KeyError, TypeError, NotImplementedError) as error:
        said = " ".join(str(error).split())
        if "pickle" in said:  # numpy takes whatever is no archive for one
            said = "not an .npz archive of arrays"
        raise FileFormatError(f"a damaged trace: {said}") from None
    if data.get("format") != FORMAT:
        raise FileFormatError(f"no trace: expected format {FORMAT!r}, got {data.get('format')!r}")
    return _unpack(data, columns)


def _unpack(data: dict[str, Any], columns: dict[str, NDArray[Any]]) -> tuple[Trace, NodeMap | None]:
    table = OpTable(_no_rules)
    for packed in data["signatures"]:
        signature = Signature(
            _is(packed["name"], str, "an operator name"),
            tuple(_spec(t) for t in packed["inputs"]),
            tuple(_spec(t) for t in packed["outputs"]),
            tuple((key, _tuples(value)) for key, value in packed["attributes"].items()),
        )
        table.append(signature, _cost(packed["cost"]))
    scopes = tuple(_is(scope, str, "a module path") for scope in data["scopes"])
    owner = columns.pop(_OWNER, None)
    columns.setdefault(_DEVICE, np.zeros(len(columns["signature"]), np.uint8))
    devices = _is(data.get("devices", 1), int, "a number of devices")
    rows = _rows(columns, table, scopes, devices)
    nodes = None if owner is None else _nodes(data["nodes"], owner, len(rows))
    return Trace(table, rows, scopes, _origin(data["origin"])), nodes


def _columns(header: dict[str, Any]) -> tuple[str, ...]:
    """The columns of rows that a file of this header holds."""
    return (*_COLUMNS, _DEVICE) if "devices" in header else tuple(_COLUMNS)


def _named(header: dict[str, Any]) -> tuple[str, ...]:
    """All columns that a file of this header holds."""
    return (*_columns(header), _OWNER) if "nodes" in header else _columns(header)


_NODE = {f.name: f.default for f in fields(Node)}


def _pack_node(node: Node) -> dict[str, Any]:
    return {name: getattr(node, name) for name, default in _NODE.items() if getattr(node, name) != default}


def _nodes(packed: list[dict[str, Any]], owner: NDArray[Any], rows: int) -> NodeMap:
    nodes = tuple(_node(entry, number) for number, entry in enumerate(packed))
    if owner.ndim != 1 or (len(owner) and owner.dtype.kind not in "iu") or len(owner) != rows:
        raise FileFormatError(f"a damaged trace: expected a node's number for each of {rows} operators")
    if len(owner) and (int(owner.min()) < -1 or int(owner.max()) >= len(nodes)):
        raise FileFormatError(f"a damaged trace: a node's number is not in -1..{len(nodes) - 1}")
    return NodeMap(nodes, owner.astype(np.int32))


def _node(packed: dict[str, Any], number: int) -> Node:
    values = {name: packed[name] for name in _NODE if name in packed}
    for name in ("reads", "implicit", "writes"):
        values[name] = tuple(_is(value, str, "a value's name") for value in packed.get(name, ()))
    node = Node(**values)
    for name in ("name", "type", "domain", "path", "scope", "reason"):
        _is(getattr(node, name), str, f"a node's {name}")
    if node.state not in STATES:
        raise FileFormatError(f"a damaged trace: unknown state {node.state!r} of a node")
    if not -1 <= _is(node.parent, int, "a node's number") < number:
        raise FileFormatError(f"a damaged trace: node {number} is in a body of node {node.parent}")
    return node


def _rows(columns: dict[str, NDArray[Any]], table: OpTable, scopes: tuple[str, ...], devices: int) -> Rows:
    """The columns, if they fit together: else a later stage would fail far from the file."""
    for name, column in columns.items():
        if column.ndim != 1 or (len(column) and column.dtype.kind not in "iu"):
            raise FileFormatError(f"a damaged trace: column {name!r} is not a list of whole numbers")
    limits = {"signature": len(table), "phase": len(PHASES), "scope": len(scopes), _DEVICE: min(devices, _MOST_DEVICES)}
    for name, limit in limits.items():
        column = columns[name]
        if len(column) and (int(column.min()) < 0 or int(column.max()) >= limit):
            raise FileFormatError(f"a damaged trace: a {name} index is not in 0..{limit - 1}")
    types = {**_COLUMNS, _DEVICE: np.uint8}
    rows = Rows(**{name: columns[name].astype(kind) for name, kind in types.items()})
    count = len(rows)
    if len(rows.phase) != count or len(rows.scope) != count:
        raise FileFormatError(f"a damaged trace: {count} operators, {len(rows.phase)} phases, {len(rows.scope)} scopes")
    if len(rows.device) != count:
        raise FileFormatError(f"a damaged trace: {count} operators, {len(rows.device)} device indices")
    expected = int(rows.offsets(table)[-1]) if count else 0
    if len(rows.tensors) != expected:
        raise FileFormatError(f"a damaged trace: expected {expected} tensor ids, got {len(rows.tensors)}")
    return rows


def _spec(packed: dict[str, Any]) -> TensorSpec:
    shape = tuple(_is(n, int, "a length") for n in packed["shape"])
    dtype = _is(packed["dtype"], str, "a dtype")
    if any(n < 0 for n in shape):
        raise FileFormatError(f"a damaged trace: shape {list(shape)}")
    if dtype not in BITS:
        raise FileFormatError(f"a damaged trace: unknown dtype {dtype!r}")
    return TensorSpec(shape, dtype, _is(packed.get("weight", False), bool, "a weight flag"))


def _cost(packed: dict[str, Any]) -> Cost:
    if packed["category"] not in CATEGORIES:
        raise FileFormatError(f"a damaged trace: unknown category {packed['category']!r}")
    counts = {name: _is(packed[name], int, name) for name in ("bytes_read", "bytes_written", "weight_bytes")}
    flops = None if packed["flops"] is None else _is(packed["flops"], int, "flops")
    if min(*counts.values(), flops or 0) < 0:
        raise FileFormatError("a damaged trace: a negative cost")
    return Cost(
        packed["category"],
        flops,
        reason=packed["reason"],
        **counts,
        products=tuple(_product(p) for p in packed.get("products", ())),
        extras=tuple(_extra(e) for e in packed.get("extras", ())),
        lane_ops=_count(packed["lane_ops"], "lane_ops") if "lane_ops" in packed else None,
        in_flight_ops=_count(packed.get("in_flight_ops", 0), "in_flight_ops"),
    )


def _product(packed: dict[str, Any]) -> Product:
    sizes: dict[str, Any] = {name: _count(packed[name], name) for name in _SIZES}
    places = {name: tuple(_count(n, name) for n in packed[name]) for name in ("a", "b", "out")}
    window = packed["window"]
    return Product(
        **sizes,
        a=places["a"],
        b=places["b"],
        out=places["out"],
        chained=_is(packed["chained"], bool, "a flag"),
        window=None if window is None else _window(window),
        windowed=_is(packed["windowed"], str, "an operand"),
    )


def _window(packed: dict[str, Any]) -> Window:
    lists = {f.name: packed[f.name] for f in fields(Window)[1:]}
    return Window(
        _count(packed["images"], "images"), **{k: tuple(_count(n, k) for n in values) for k, values in lists.items()}
    )


def _extra(packed: dict[str, Any]) -> Extra:
    name, staged = _is(packed["name"], str, "a name"), _is(packed["staged"], bool, "a flag")
    return Extra(name, _count(packed["flops"], "flops"), staged)


def _count(value: Any, what: str) -> int:
    count: int = _is(value, int, what)
    if count < 0:
        raise FileFormatError(f"a damaged trace: a negative {what}")
    return count


def _origin(packed: dict[str, Any]) -> Origin:
    known = {f.name for f in fields(Origin)}
    values = {key: value for key, value in packed.items() if key in known}
    values["versions"] = tuple((name, version) for name, version in values.get("versions", ()))
    values["notes"] = tuple(values.get("notes", ()))
    return Origin(**values)


def _is(value: Any, kind: type, what: str) -> Any:
    if type(value) is not kind:
        raise FileFormatError(f"a damaged trace: expected {what}, got {value!r}")
    return value


def _tuples(value: Any) -> Any:
    return tuple(_tuples(v) for v in value) if isinstance(value, list) else value


def _no_rules(signature: Signature) -> Cost:
    raise SimdeviceError(f"a loaded trace takes no new operator, got {signature.name!r}")
