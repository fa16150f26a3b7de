"""Designs per second of a sweep. Uses the public interface only, so that another checkout can be timed with this file:

PYTHONPATH=../before python benchmarks/sweeps.py     # and without, in turns: A B A B
"""

from __future__ import annotations

import statistics
import time

import simdevice as sd

MACHINES = 2000
AXES = {
    "buffer_bytes": sd.Range("256 KiB", "8 MiB"),
    "dram_bandwidth_bytes_per_s": sd.Range("10 GB/s", "400 GB/s"),
    "clock_hz": sd.Range("500 MHz", "2 GHz"),
    "dram_channels": [1, 2, 4],
    "array_rows": [16, 32, 64, 128],
}


def main(rounds: int = 5) -> None:
    """Random variants of edge-npu for GPT-2 on one core: each machine read, cut for, simulated and summed up."""
    trace = sd.trace("gpt2", tokens=128)
    sd.sweep(trace, "edge-npu", samples=64, seed=rounds, **AXES)  # warms up
    rates = []
    for seed in range(rounds):
        start = time.process_time()
        table = sd.sweep(trace, "edge-npu", samples=MACHINES, seed=seed, **AXES)
        rates.append(MACHINES / (time.process_time() - start))
        assert len({tuple(record[name] for name in AXES) for record in table.records}) == MACHINES
    print(
        f"gpt2, 128 tokens, {MACHINES:,} distinct variants of edge-npu: {statistics.median(rates):,.0f} per CPU second"
    )


if __name__ == "__main__":
    main()
