"""What tiles of every reference trace move is what its operators read and write, and the excess that a run names."""

from __future__ import annotations

import pytest
from reference_traces import REFERENCES

import simdevice as sd


@pytest.mark.parametrize("name", REFERENCES)
def test_tiles_move_the_traces_bytes_and_named_excess(name: str) -> None:
    trace = REFERENCES[name]()
    assert trace.bytes > 0
    for device in ("edge-npu", "dc-npu", "published/dc-npu"):
        run = sd.device(device).run(trace)
        assert run.program is not None
        stored = run.program.column("result_bytes")[run.program.column("store_ticks") > 0]
        moved = int(run.program.column("operand_bytes").sum() + stored.sum())
        assert moved == trace.bytes + sum(run.excess_bytes.values()), device
        assert run.excess_bytes.get("left out", 0) == 0 or device.startswith("published/")
