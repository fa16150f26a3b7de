"""The tile engines side by side in CPU time, the lowering's share of it, and how cost grows with tiles."""

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


def main() -> None:
    for model, tokens, device in (
        ("gpt2", 128, "edge-npu"),
        ("llama3-8b", 2048, "dc-npu"),
        ("llama3-8b", 512, "edge-npu"),
    ):
        compare(sd.trace(model, tokens=tokens), f"{model}, {tokens} tokens, {device}", device)
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

    clock = time.process_time
    quick = interleaved_medians(
        [whole(NativeLowering, native), lowered(NativeLowering), lambda: native.run(program)], rounds=15, clock=clock
    )
    slow = interleaved_medians(
        [whole(PythonLowering, python), lowered(PythonLowering), lambda: python.run(program)], rounds=3, clock=clock
    )
    (event_driven,) = interleaved_medians([lambda: simpy.run(program)], rounds=5, clock=clock)
    rows = [
        ("native, lowering in C++", quick[0], ""),
        ("  lowering in C++", quick[1], ""),
        ("  native engine", quick[2], ""),
        ("python, lowering in Python", slow[0], "50"),
        ("  lowering in Python", slow[1], ""),
        ("  python engine", slow[2], ""),
        ("simpy engine, lowered before", event_driven, "1,000"),
    ]
    shown = [(name, f"{took * 1e3:,.2f} ms", f"{took / quick[0]:,.1f}", target) for name, took, target in rows]
    show(
        f"{title}: {len(program):,} tiles", ("trace to timeline", "median CPU", "/ native whole", "target ratio"), shown
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
