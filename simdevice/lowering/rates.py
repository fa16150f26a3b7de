"""A machine as whole numbers: what a byte, a cycle and a link transfer cost in ticks, exactly."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import floor, lcm

from simdevice.errors import SpecError
from simdevice.hardware import AcceleratorSpec, LinkSpec
from simdevice.units import PS_PER_S, ceil_div

__all__ = ["Rates"]

LARGEST = 2**62
"""Products of a rate and a count must fit 128 bits in the C++ lowering, which computes the same."""


@dataclass(frozen=True, slots=True)
class Rates:
    """A memory transfer of b bytes with o operations in transit takes
    ceil((transfer_fixed + max(b * transfer_byte, o * transfer_op)) / transfer_scale) ticks,
    a link transfer ceil((link_fixed + b * link_byte) / link_scale), c cycles ceil(c * cycle / cycle_scale).
    `all_operands`: blocks of a product also load what its operator reads beside the operands.
    """

    ticks_per_s: Fraction
    quantised: bool
    buffer_bytes: int
    tile_bytes: int
    dram_channels: int
    array_rows: int
    array_cols: int
    vector_lanes: int
    launch_ticks: int
    in_transit: bool
    all_operands: bool
    transfer_fixed: int
    transfer_byte: int
    transfer_op: int
    transfer_scale: int
    cycle: int
    cycle_scale: int
    link_fixed: int
    link_byte: int
    link_scale: int

    @classmethod
    def of(cls, spec: AcceleratorSpec, link: LinkSpec) -> Rates:
        """1. A tick is a picosecond, or a clock cycle where the spec is quantised.
        2. A transfer holds one memory channel and the NoC of its direction: latencies add, the
           slower one sets the rate: min(DRAM bandwidth / channels, NoC bandwidth).
        3. In transit, o operations take o / (operations per byte * rate) of it at least.

        Raises:
            SpecError: a rate with so many digits that it cannot be computed exactly.
        """
        ticks = Fraction(spec.clock_hz) if spec.quantise else Fraction(PS_PER_S)
        channel = Fraction(spec.dram_bandwidth_bytes_per_s) / spec.dram_channels
        rate = min(channel, Fraction(spec.noc_bandwidth_bytes_per_s))
        in_transit = spec.transit_ops_per_byte != 0
        per_op = ticks / (rate * spec.transit_ops_per_byte) if in_transit else Fraction(0)
        latency = Fraction(spec.dram_latency_s) + spec.noc_latency_s
        fixed, byte, op, scale = _common(spec, latency * ticks, ticks / rate, per_op)
        link_latency = Fraction(link.latency_s) * ticks
        link_fixed, link_byte, link_scale = _common(spec, link_latency, ticks / link.bandwidth_bytes_per_s)
        cycle, cycle_scale = _common(spec, ticks / spec.clock_hz)
        launch = Fraction(spec.launch_overhead_s) * ticks
        return cls(
            ticks_per_s=ticks,
            quantised=spec.quantise,
            buffer_bytes=spec.buffer_bytes,
            tile_bytes=floor(spec.buffer_bytes * Fraction(spec.tile_fraction)),
            dram_channels=spec.dram_channels,
            array_rows=spec.array_rows,
            array_cols=spec.array_cols,
            vector_lanes=spec.vector_lanes,
            launch_ticks=ceil_div(launch.numerator, launch.denominator),
            in_transit=in_transit,
            all_operands=spec.operands == "all",
            transfer_fixed=fixed,
            transfer_byte=byte,
            transfer_op=op,
            transfer_scale=scale,
            cycle=cycle,
            cycle_scale=cycle_scale,
            link_fixed=link_fixed,
            link_byte=link_byte,
            link_scale=link_scale,
        )

    def transfer_ticks(self, size: int, ops: int = 0) -> int:
        """One memory transfer; nothing to move takes no time."""
        if not size:
            return 0
        moved = max(size * self.transfer_byte, ops * self.transfer_op)
        return ceil_div(self.transfer_fixed + moved, self.transfer_scale)

    def link_ticks(self, size: int) -> int:
        """One transfer over the host link."""
        return ceil_div(self.link_fixed + size * self.link_byte, self.link_scale)

    def cycle_ticks(self, cycles: int) -> int:
        """Clock cycles."""
        return ceil_div(cycles * self.cycle, self.cycle_scale)

    def array_ticks(self, batch: int, m: int, k: int, n: int) -> int:
        """Output-stationary: k cycles per array-sized block of the output, and one fill and drain."""
        blocks = batch * ceil_div(m, self.array_rows) * ceil_div(n, self.array_cols)
        return self.cycle_ticks(blocks * k + self.array_rows + self.array_cols)

    def vector_ticks(self, work: int) -> int:
        """`vector_lanes` operations per cycle."""
        return self.cycle_ticks(ceil_div(work, self.vector_lanes))


def _common(spec: AcceleratorSpec, *values: Fraction) -> tuple[int, ...]:
    """The values as integers over one denominator, which comes last."""
    scale = lcm(*(v.denominator for v in values))
    whole = [v.numerator * (scale // v.denominator) for v in values]
    if max(*whole, scale) > LARGEST:
        raise SpecError(f"{spec.name}: rates have too many digits to be exact; round bandwidths, latencies and clock")
    return (*whole, scale)
