"""Many machines, one trace: a grid or a sample of an accelerator's fields, simulated and tabled.

table = sweep(trace, "edge-npu", buffer_bytes=["128 KiB", "2 MiB"], array_rows=[32, 64])
table = sweep(trace, "edge-npu", samples=10_000, dram_bandwidth_bytes_per_s=Range("10 GB/s", "1 TB/s"))
"""

from __future__ import annotations

import hashlib
import json
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

from simdevice import engines
from simdevice.analysis.stalls import STALLS, in_ps
from simdevice.analysis.utilisation import limit, parts
from simdevice.devices.outlines import Outlines
from simdevice.errors import LoweringError, SimdeviceError, SpecError, UnknownNameError
from simdevice.extras import extra
from simdevice.files import atomic_write
from simdevice.hardware import AcceleratorSpec, load, load_link
from simdevice.lowering import Rates, fastest
from simdevice.records import Outline, Trace
from simdevice.report.pareto import SweepTable, check_ending
from simdevice.units import PS_PER_S, exact

__all__ = ["RESULTS", "Range", "check", "points", "sweep"]

CHUNK = 64
"""Points per task: what a worker simulates before it reports, and what an interruption can lose."""

ROUND = 4
"""Tasks per worker between two reports of a backend that reports only at the end."""

RESULTS: tuple[str, ...] = (
    *("latency_s", "makespan_ps", "tiles"),
    *(f"{name}_share" for name in STALLS),
    *("hot_spot", "array_busy_share", "pe_efficiency_share", "vector_busy_share", "memory_busy_share"),
    *("loaded_bytes", "stored_bytes", "buffer_peak_bytes", "error"),
)
"""Columns after the swept fields. `error` says why a machine can't run the trace; the others are then empty."""

Point = dict[str, Any]
Record = dict[str, Any]
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Range:
    """Values between two, drawn so that every factor is equally likely; whole where both ends are."""

    low: Any
    high: Any


def sweep(
    trace: Trace,
    device: str | Path | AcceleratorSpec,
    *,
    engine: str = "native",
    samples: int | None = None,
    seed: int = 0,
    jobs: int = 1,
    backend: str | None = None,
    path: str | Path | None = None,
    progress: Progress | None = None,
    **axes: Sequence[object] | Range,
) -> SweepTable:
    """Simulate the trace on every combination of the axes' values, or on `samples` of them.

    `jobs` processes share the work through joblib (-1: all cores); `backend` names one of joblib's
    backends, or "ray" for a Ray cluster. With a `path` (.csv or .parquet) the table is written there,
    and what is done is kept beside it meanwhile: the same call goes on where an earlier one stopped.
    `progress` is called with the points done and the points in all.

    Raises:
        SpecError: a field that does not exist, a value that can't be, no axis, a Range without samples, a trace on
            several devices.
        UnknownNameError: no such engine or backend.
        SimdeviceError: a file that belongs to another sweep, or a missing package.
    """
    spec, chosen = check(device, axes, samples=samples, seed=seed, engine=engine, jobs=jobs, backend=backend, path=path)
    Outlines.check(trace)
    chunks = [chosen[i : i + CHUNK] for i in range(0, len(chosen), CHUNK)]
    if path is None:
        records = _all(_simulated(trace, spec, engine, chunks, jobs, backend), {}, len(chunks), len(chosen), progress)
        return SweepTable(tuple(axes), RESULTS, records)
    with _Journal(path, _digest(trace, spec, engine, chosen)) as journal:
        left = [i for i in range(len(chunks)) if i not in journal.done]
        fresh = _simulated(trace, spec, engine, [chunks[i] for i in left], jobs, backend)
        kept = journal.keeping(zip(left, fresh, strict=True))
        table = SweepTable(tuple(axes), RESULTS, _all(kept, journal.done, len(chunks), len(chosen), progress))
        table.save(path)
    journal.path.unlink()
    return table


def check(
    device: str | Path | AcceleratorSpec,
    axes: Mapping[str, Sequence[object] | Range],
    *,
    samples: int | None = None,
    seed: int = 0,
    engine: str = "native",
    jobs: int = 1,
    backend: str | None = None,
    path: str | Path | None = None,
) -> tuple[AcceleratorSpec, list[Point]]:
    """What a sweep would start from and the machines it would simulate: refuses what `sweep` refuses, before
    there is a trace.

    Raises:
        SimdeviceError: as `sweep` does.
    """
    spec = load(device)
    if not isinstance(spec, AcceleratorSpec):
        raise SpecError(f"{spec.name} is a roofline; a sweep needs an accelerator such as 'edge-npu'")
    if path is not None:
        check_ending(path)
    if jobs == 0:
        raise SpecError("jobs: expected a number of processes, or -1 for one per core, got 0")
    if backend is not None:
        known = {*extra("joblib.parallel", "sweep", "a sweep over several processes").BACKENDS, "ray"}
        if backend not in known:
            raise UnknownNameError("backend", backend, known)
    chosen = points(spec, axes, samples=samples, seed=seed)
    found = engines.get(engine)
    if found.name == "cycle" and not (spec.quantise or "quantise" in axes):
        raise SpecError("engine 'cycle' steps whole clock cycles: sweep a device with quantise=True")
    return spec, chosen


def _all(
    fresh: Iterator[list[Record]], done: Mapping[int, list[Record]], chunks: int, total: int, progress: Progress | None
) -> tuple[Record, ...]:
    """The chunks in order, those done before among them; tells the progress after each new one."""
    records: list[Record] = []
    told = sum(len(chunk) for chunk in done.values())
    for i in range(chunks):
        known = done.get(i)
        chunk = next(fresh) if known is None else known
        records += chunk
        if known is None and progress is not None:
            told += len(chunk)
            progress(told, total)
    return tuple(records)


def points(
    spec: AcceleratorSpec, axes: Mapping[str, Sequence[object] | Range], *, samples: int | None, seed: int
) -> list[Point]:
    """The machines to simulate, as fields to replace; values are what the spec makes of them."""
    if not axes:
        raise SpecError("a sweep needs a field to vary, such as buffer_bytes=['512 KiB', '2 MiB']")
    read = {name: _read(spec, name, values) for name, values in axes.items()}
    lists = {name: values for name, values in read.items() if not isinstance(values, Range)}
    if samples is None:
        if len(lists) < len(read):
            name = next(name for name in read if name not in lists)
            raise SpecError(f"{name}: a range has no grid; say how many to draw (samples=, --sample)")
        return [dict(zip(read, values, strict=True)) for values in product(*lists.values())]
    if samples < 1:
        raise SpecError(f"samples: expected one or more, got {samples}")
    generator = random.Random(seed)
    if len(lists) == len(read):
        size = math.prod(len(values) for values in lists.values())
        numbers = generator.sample(range(size), min(samples, size))
        return [_on_grid(lists, number) for number in numbers]
    return [{name: _drawn(values, generator) for name, values in read.items()} for _ in range(samples)]


def _read(spec: AcceleratorSpec, name: str, values: Sequence[object] | Range) -> list[Any] | Range:
    def one(value: object) -> Any:
        return getattr(spec.replace(**{name: value}), name)

    if isinstance(values, Range):
        low, high = one(values.low), one(values.high)
        if isinstance(low, (str, bool)) or not 0 < low <= high:
            raise SpecError(f"{name}: expected 0 < low <= high in a range, got {values.low} to {values.high}")
        return Range(low, high)
    if isinstance(values, str) or not isinstance(values, Sequence) or not values:
        raise SpecError(f"{name}: expected a list of values or a Range, got {values!r}")
    return [one(value) for value in values]


def _on_grid(lists: Mapping[str, Sequence[Any]], number: int) -> Point:
    point = {}
    for name, values in lists.items():
        number, index = divmod(number, len(values))
        point[name] = values[index]
    return point


def _drawn(values: list[Any] | Range, generator: random.Random) -> Any:
    if not isinstance(values, Range):
        return generator.choice(values)
    drawn = math.exp(generator.uniform(math.log(values.low), math.log(values.high)))
    if isinstance(values.low, int) and isinstance(values.high, int):
        return min(max(round(drawn), values.low), values.high)
    return float(f"{drawn:.6g}")  # few digits, so that rates stay exact


def _simulated(
    trace: Trace, spec: AcceleratorSpec, engine: str, chunks: list[list[Point]], jobs: int, backend: str | None
) -> Iterator[list[Record]]:
    """Each chunk's records, in order, as they are done."""
    if jobs == 1 and backend is None:
        worker = _Worker(trace, spec, engine)
        return (_chunk(worker, chunk) for chunk in chunks)
    joblib = extra("joblib", "sweep", "a sweep over several processes")
    tasks = [joblib.delayed(_task)(trace, spec, engine, chunk) for chunk in chunks]
    if backend != "ray":
        results: Iterator[list[Record]] = joblib.Parallel(n_jobs=jobs, backend=backend, return_as="generator")(tasks)
        return results
    extra("ray.util.joblib", "ray", "backend 'ray'").register_ray()
    return _in_rounds(joblib, tasks, jobs)


def _in_rounds(joblib: Any, tasks: list[Any], jobs: int) -> Iterator[list[Record]]:
    """Ray's backend gives results only all at once: so a few tasks per worker at a time."""
    with joblib.parallel_config(backend="ray", n_jobs=jobs):
        step = ROUND * joblib.effective_n_jobs(jobs)
        for i in range(0, len(tasks), step):
            yield from joblib.Parallel()(tasks[i : i + step])


def _task(trace: Trace, spec: AcceleratorSpec, engine: str, chunk: list[Point]) -> list[Record]:
    """What another process does."""
    return _chunk(_Worker(trace, spec, engine), chunk)


def _chunk(worker: _Worker, chunk: list[Point]) -> list[Record]:
    return [worker.record(point) for point in chunk]


class _Worker:
    """What is done once for all machines, and then a line of the table for each."""

    def __init__(self, trace: Trace, spec: AcceleratorSpec, engine: str) -> None:
        self._fields = dict(spec)
        self._outlines = Outlines(trace, engines.get(engine), fastest())
        self._link = cache(load_link)

    def record(self, point: Point) -> Record:
        """One machine's line."""
        axes = {name: float(value) if isinstance(value, Fraction) else value for name, value in point.items()}
        read = {name: exact(value) if isinstance(value, float) else value for name, value in point.items()}
        # A spec's fields without its checks, which `points` has made.
        machine: Any = SimpleNamespace(**{**self._fields, **read})
        try:
            found = self._outlines.on(Rates.of(machine, self._link(machine.link)))
        except (LoweringError, SpecError) as error:
            return {**axes, **dict.fromkeys(RESULTS), "error": str(error)}
        return {**axes, **_columns(found, machine)}


def _columns(found: Outline, machine: AcceleratorSpec) -> Record:
    """The results of a machine that runs the trace."""
    makespan_ps = found.makespan_ps
    whole, stalls_ps = max(makespan_ps, 1), in_ps(found.stalls, found.ticks_per_s)
    components = parts(found.amounts, found.ticks_per_s, makespan_ps, machine)
    array, vector, load_engine, store_engine, channels, *_ = components
    return {
        "latency_s": makespan_ps / PS_PER_S,
        "makespan_ps": makespan_ps,
        "tiles": found.tiles,
        **{f"{name}_share": ps / whole for name, ps in stalls_ps.items()},
        "hot_spot": limit(stalls_ps, components, machine) if makespan_ps else "",
        "array_busy_share": array.share,
        "pe_efficiency_share": array.efficiency_share,
        "vector_busy_share": vector.share,
        "memory_busy_share": channels.share,
        "loaded_bytes": load_engine.work,
        "stored_bytes": store_engine.work,
        "buffer_peak_bytes": found.buffer_peak_bytes,
        "error": "",
    }


def _digest(trace: Trace, spec: AcceleratorSpec, engine: str, chosen: list[Point]) -> str:
    """What makes two sweeps the same."""
    compact = trace.compact()
    parts = (spec, engine, CHUNK, chosen, compact.table.signatures, compact.table.costs)
    found = hashlib.sha256(repr(parts).encode())
    found.update(compact.rows.signature.tobytes())
    found.update(compact.rows.tensors.tobytes())
    return found.hexdigest()


class _Journal:
    """What is done, kept beside the table while a sweep runs: one line per chunk.

    1. Construct: reads what an earlier run left. 2. Enter: opens the file. 3. `keeping` writes each
    chunk as it passes. 4. Leave: closes the file, which stays until the table is written.
    """

    def __init__(self, path: str | Path, digest: str) -> None:
        self.path = Path(f"{path}.partial")
        self.done: dict[int, list[Record]] = {}
        self._head = {"sweep": digest}
        if self.path.exists():
            self._read()

    def _read(self) -> None:
        entries = []
        for line in self.path.read_text(encoding="utf-8").splitlines():
            with suppress(json.JSONDecodeError):  # the last line may have been cut off
                entries.append(json.loads(line))
        if entries[:1] != [self._head]:
            raise SimdeviceError(f"{self.path} holds the progress of another sweep: remove it, or choose another path")
        self.done = {entry["chunk"]: entry["records"] for entry in entries[1:]}

    def __enter__(self) -> _Journal:
        entries = [self._head, *({"chunk": i, "records": records} for i, records in self.done.items())]
        with atomic_write(self.path) as file:
            file.writelines(json.dumps(entry) + "\n" for entry in entries)
        self._file: IO[str] = self.path.open("a", encoding="utf-8")
        return self

    def __exit__(self, *unused: object) -> None:
        self._file.close()

    def keeping(self, fresh: Iterator[tuple[int, list[Record]]]) -> Iterator[list[Record]]:
        """The chunks as they come, each written before it is passed on."""
        for i, records in fresh:
            self._file.write(json.dumps({"chunk": i, "records": records}) + "\n")
            self._file.flush()
            yield records
