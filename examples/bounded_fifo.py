"""A bounded FIFO between a producer and a consumer: what depth buys, and what it can't.

Two lessons of hardware design in twenty lines of SimPy:

* Bursts. When items come eight at a time and the consumer keeps up on average, a FIFO as deep as the
  burst (twice that here) takes the producer from blocked almost half of the time to hardly ever.
* A slow consumer. When it is slower on average, depth only postpones the blocking: deep or not, the
  producer is blocked for the difference of the rates.

And Little's law holds on every run, whatever the distributions: the time-averaged depth is the
throughput times the mean wait in the FIFO.

    python examples/bounded_fifo.py
"""

from __future__ import annotations

import random
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import simpy

ITEMS = 2_000
SPREAD = 0.5  # times are uniform in mean x (1 +- SPREAD)


@dataclass(frozen=True)
class Result:
    """What a run measured, in the unit of its mean times."""

    makespan: float
    blocked: float  # how long the producer waited for room
    depth_integral: float  # depth x time
    waits: float  # of all items in the FIFO, added up
    items: int

    @property
    def blocked_share(self) -> float:
        return self.blocked / self.makespan

    @property
    def mean_depth(self) -> float:
        return self.depth_integral / self.makespan

    @property
    def throughput_times_wait(self) -> float:
        return (self.items / self.makespan) * (self.waits / self.items)


class Fifo:
    """The FIFO and its two neighbours. 1. Construct. 2. `run`."""

    def __init__(self, depth: int, *, produce: float, consume: float, burst: int, items: int, seed: int) -> None:
        self.env = simpy.Environment()
        self.store = simpy.Store(self.env, capacity=depth)
        self.random = random.Random(seed)
        self.produce, self.consume, self.burst, self.items = produce, consume, burst, items
        self.blocked = 0.0
        self.entered: list[float] = []
        self.left: list[float] = []
        self.depth, self.depth_integral, self.depth_since = 0, 0.0, 0.0

    def run(self) -> Result:
        self.env.process(self.producer())
        self.env.run(self.env.process(self.consumer()))
        waits = sum(self.left) - sum(self.entered)
        return Result(self.env.now, self.blocked, self.depth_integral, waits, self.items)

    def time(self, mean: float) -> float:
        return mean * self.random.uniform(1 - SPREAD, 1 + SPREAD)

    def change_depth(self, by: int) -> None:
        self.depth_integral += self.depth * (self.env.now - self.depth_since)
        self.depth, self.depth_since = self.depth + by, self.env.now

    def producer(self) -> Generator[simpy.Event, Any, None]:
        """A burst of items at once, after the time it takes to make as many."""
        for item in range(self.items):
            if item % self.burst == 0:
                yield self.env.timeout(self.time(self.burst * self.produce))
            asked = self.env.now
            yield self.store.put(item)
            self.blocked += self.env.now - asked
            self.entered.append(self.env.now)
            self.change_depth(+1)

    def consumer(self) -> Generator[simpy.Event, Any, None]:
        for _ in range(self.items):
            yield self.store.get()
            self.left.append(self.env.now)
            self.change_depth(-1)
            yield self.env.timeout(self.time(self.consume))


SCENARIOS: dict[str, dict[str, Any]] = {
    "bursts of 8, depth 1": {"depth": 1, "produce": 1.0, "consume": 1.0, "burst": 8},
    "bursts of 8, depth 16": {"depth": 16, "produce": 1.0, "consume": 1.0, "burst": 8},
    "slow consumer, depth 1": {"depth": 1, "produce": 1.0, "consume": 1.2, "burst": 1},
    "slow consumer, depth 16": {"depth": 16, "produce": 1.0, "consume": 1.2, "burst": 1},
}


def simulate(scenario: str, seed: int, items: int = ITEMS) -> Result:
    """One run of a scenario."""
    return Fifo(**SCENARIOS[scenario], items=items, seed=seed).run()


def main() -> None:
    print(f"{'scenario':26}{'producer blocked':>18}{'mean depth':>12}{'throughput x wait':>19}")
    for scenario in SCENARIOS:
        run = simulate(scenario, seed=0)
        little = run.throughput_times_wait
        print(f"{scenario:26}{run.blocked_share:>18.1%}{run.mean_depth:>12.3f}{little:>19.3f}")


if __name__ == "__main__":
    main()
