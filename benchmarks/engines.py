"""The tile engines side by side, the lowering's share of it, sweeps, and how cost grows with tiles."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable

import numpy as np

import simdevice as sd
from benchmarks._timing import interleaved_medians, show
from simdevice import engines
from simdevice.devices.accelerator import Accelerator
from simdevice.hardware import load, load_link
from simdevice.lowering import PythonLowering, Rates
from simdevice.lowering.native import NativeLowering
from simdevice.records import Program, Trace
from simdevice.sweeps import Range, sweep


def main() -> None:
    for model, tokens, device in (
        ("gpt2", 128, "edge-npu"),
        ("llama3-8b", 2048, "dc-npu"),
        ("llama3-8b", 512, "edge-npu"),
    ):
        compare(sd.trace(model, tokens=tokens), f"{model}, {tokens} tokens, {device}", device)
    variants()
    growth()


def fresh(trace: Trace) -> None:
    """Forget what earlier lowerings worked out about the signatures."""
    trace.table.derived.clear()


def compare(trace: Trace, title: str, device: str) -> None:
    """Captured trace to timeline. Every timing starts from a trace that was never lowered, but the
    engines alone, which start from a Program."""
    spec = load(device)
    rates = Rates.of(spec, load_link(spec.link))
    native, python, simpy = (engines.get(name) for name in ("native", "python", "simpy"))
    program = PythonLowering(trace.table, rates).lower(trace.rows)

    def whole(lowering: type, engine: engines.Engine) -> Callable[[], object]:
        def run() -> object:
            fresh(trace)
            return engine.run(lowering(trace.table, rates).lower(trace.rows))

        return run

    def lowered(lowering: type) -> Callable[[], object]:
        def run() -> object:
            fresh(trace)
            return lowering(trace.table, rates).lower(trace.rows)

        return run

    quick = interleaved_medians(
        [whole(NativeLowering, native), lowered(NativeLowering), lambda: native.run(program)], rounds=15
    )
    slow = interleaved_medians(
        [whole(PythonLowering, python), lowered(PythonLowering), lambda: python.run(program)], rounds=3
    )
    start = time.perf_counter()
    simpy.run(program)
    event_driven = time.perf_counter() - start
    rows = [
        ("native, lowering in C++", quick[0], ""),
        ("  lowering in C++", quick[1], ""),
        ("  native engine", quick[2], ""),
        ("python, lowering in Python", slow[0], "50"),
        ("  lowering in Python", slow[1], ""),
        ("  python engine", slow[2], ""),
        ("simpy engine, lowered before", event_driven, "300, aim 1,000"),
    ]
    shown = [(name, f"{took * 1e3:,.2f} ms", f"{took / quick[0]:,.1f}", target) for name, took, target in rows]
    show(f"{title}: {len(program):,} tiles", ("trace to timeline", "median", "/ native whole", "target ratio"), shown)


def variants(count: int = 1000) -> None:
    """Random variants of edge-npu for GPT-2: each machine read, lowered for, simulated and summed up."""
    trace = sd.trace("gpt2", tokens=128)
    start, cpu = time.perf_counter(), time.process_time()
    sweep(
        trace,
        "edge-npu",
        samples=count,
        buffer_bytes=Range("256 KiB", "8 MiB"),
        dram_bandwidth_bytes_per_s=Range("10 GB/s", "400 GB/s"),
        array_rows=[16, 32, 64, 128],
    )
    took, cpu = time.perf_counter() - start, time.process_time() - cpu
    row = (f"{count:,}", f"{took:.2f} s", f"{cpu:.2f} s", f"{took / count * 10_000:.1f} s", "20 s")
    show(
        "gpt2, 128 tokens: variants of edge-npu on one core",
        ("machines", "wall", "CPU", "10,000 take", "target"),
        [row],
    )


def growth() -> None:
    """The same layer again and again: time per tile and memory at 10^4, 10^5, 10^6 tiles."""
    trace = sd.trace("gpt2", tokens=128)
    spec = load("edge-npu")
    device = Accelerator(spec, load_link(spec.link), engine="native")
    layer = device.lowering(trace.table).lower(trace.rows)
    engine, rows = engines.get("native"), []
    for copies in (10, 100, 1000):
        program = repeated(layer, copies)
        (took,) = interleaved_medians([lambda program=program: engine.run(program)], rounds=5)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        rows.append(
            (f"{len(program):,}", f"{took * 1e3:,.2f} ms", f"{took / len(program) * 1e9:.1f} ns", f"{peak:,.0f} MiB")
        )
    show("native engine, growing programs", ("tiles", "median", "per tile", "peak memory of the process"), rows)


def repeated(layer: Program, copies: int) -> Program:
    count = layer.operators
    shifts = np.repeat(np.arange(copies) * count, np.diff(layer.dep_offsets).sum())
    return Program(
        layer.tiles,
        np.tile(layer.tile_list, copies),
        np.concatenate([[0], np.cumsum(np.tile(np.diff(layer.dep_offsets), copies))]),
        np.tile(layer.deps, copies) + shifts,
        *(np.zeros(count * copies, np.int64) for _ in range(3)),
        np.arange(count * copies),
        layer.buffer_bytes,
        layer.dram_channels,
    )
