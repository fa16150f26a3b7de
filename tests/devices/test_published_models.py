"""Language models on the tile model, against the published figures.

Source of every figure: Torch_Sim_Frontend, examples/accel_results.md (recorded with transformers 5.18).
"""

from __future__ import annotations

import numpy as np
import pytest

import simdevice as sd
from simdevice.records import Run
from simdevice.records.program import UNITS


def array_busy(run: Run) -> float:
    """Share of the time the matrix array computes."""
    assert run.program is not None
    assert run.timeline is not None
    on_array = run.program.column("unit") == UNITS.index("array")
    return int((run.timeline.compute_end - run.timeline.compute_start)[on_array].sum()) / run.makespan_ps


def test_llama3_8b_prefill_on_the_data_centre_part() -> None:
    run = sd.device("dc-npu").run(sd.trace("llama3-8b", tokens=2048))
    assert run.tiles == 17_991
    assert round(run.makespan_ps / 10**9, 3) == 1613.057
    assert round(100 * array_busy(run), 1) == 62.5


def test_llama3_8b_on_the_edge_part_and_all_engines_agree() -> None:
    trace = sd.trace("llama3-8b", tokens=512)
    native, python = (sd.device("edge-npu", engine=e).run(trace) for e in ("native", "python"))
    assert native.tiles == 87_075
    assert native == python
    assert native.program == python.program


@pytest.mark.slow
def test_llama3_8b_on_the_edge_part_event_by_event() -> None:
    trace = sd.trace("llama3-8b", tokens=512)
    assert sd.device("edge-npu", engine="simpy").run(trace) == sd.device("edge-npu").run(trace)


def test_llama_one_channel_contention_agrees() -> None:
    trace = sd.trace("llama3-8b", tokens=32)
    runs = [sd.device("edge-npu", engine=e, dram_channels=1).run(trace) for e in ("native", "python", "simpy")]
    assert runs[0] == runs[1] == runs[2]


def test_attention_in_one_piece_reads_its_scores_back() -> None:
    """Under fake CPU tensors attention is one operator; each becomes two products on the array."""
    run = sd.device("dc-npu").run(sd.trace("llama3-8b", tokens=64, fake="cpu"))
    assert run.program is not None
    rows = np.bincount(run.program.trace_row)
    fused = [op.index for op in run.trace.ops if op.category == "attention"]
    assert len(fused) == 32
    assert set(rows[fused].tolist()) == {2}
