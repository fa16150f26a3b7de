"""How work is cut and what a tile takes, by hand."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lowering_strategies import machines

from simdevice.errors import LoweringError, SpecError
from simdevice.hardware import AcceleratorSpec, load, load_link
from simdevice.lowering import Rates
from simdevice.lowering.tiling import MOST_TILES, cut
from simdevice.lowering.work import Blocks, Stream, Transfer
from simdevice.records import Product


def rates(**overrides: object) -> Rates:
    spec = load("edge-npu", **overrides)
    assert isinstance(spec, AcceleratorSpec)
    return Rates.of(spec, load_link(spec.link))


def product(batch: int, m: int, k: int, n: int, bits: int = 32, beside: int = 0) -> Blocks:
    return Blocks(Product(batch, m, k, n, bits, bits, bits), beside)


def test_a_transfer_takes_both_latencies_and_its_bytes_at_the_slower_rate() -> None:
    # 100 ns + 20 ns + 12800 B / (25.6 GB/s / 2 channels) = 120 ns + 1000 ns
    assert rates().transfer_ticks(12_800) == 1_120_000
    # 1 B: 78.125 ps, rounded up
    assert rates().transfer_ticks(1) == 120_079
    # a NoC slower than a channel sets the rate: 12800 B / 6.4 GB/s = 2000 ns
    assert rates(noc_bandwidth_bytes_per_s="6.4 GB/s").transfer_ticks(12_800) == 2_120_000
    assert rates().transfer_ticks(0) == 0


def test_in_transit_the_slower_of_bytes_and_operations_counts() -> None:
    # 12800 B at 12.8 GB/s: 1000 ns; 25600 operations at 1.6 x 12.8 G/s: 1250 ns
    assert rates(transit_ops_per_byte="1.6 OP/B").transfer_ticks(12_800, 25_600) == 1_370_000
    assert rates(transit_ops_per_byte=2).transfer_ticks(12_800, 25_600) == 1_120_000


def test_array_cycles_are_blocks_times_depth_plus_fill_and_drain() -> None:
    # 2 x ceil(33/32) x ceil(64/32) x 10 + 32 + 32 = 144 cycles of 1 ns
    assert rates().array_ticks(2, 33, 10, 64) == 144_000


def test_vector_cycles_are_work_over_lanes_rounded_up() -> None:
    assert rates().vector_ticks(65) == 2_000


def test_quantised_durations_are_whole_cycles() -> None:
    assert rates(quantise=True).transfer_ticks(1) == 121  # 120.08 ns at 1 GHz
    assert rates(quantise=True, clock_hz="700 MHz").transfer_ticks(1) == 85  # 84.05 cycles
    assert rates(quantise=True, clock_hz="700 MHz").ticks_per_s == 700_000_000


def test_a_product_that_fits_is_one_tile() -> None:
    # 4 x (8x16 + 16x4 + 8x4) bytes
    assert cut(product(1, 8, 16, 4), rates()) == [
        (rates().transfer_ticks(768), 80_000, rates().transfer_ticks(128), 768, 128, 512, 0)
    ]


def test_the_largest_dimension_is_halved_first() -> None:
    # 1 MiB may be used. m = 4096, n = 32, k = 64: 4*(4096*64 + 64*32 + 4096*32) = 1581056; m halves to 2048
    tiles = cut(product(1, 4096, 64, 32), rates())
    assert [(t[3], t[4]) for t in tiles] == [(4 * (2048 * 64 + 64 * 32), 4 * 2048 * 32)] * 2


def test_ties_prefer_m_then_n_then_k() -> None:
    # 512 cubed: 3 x 1 MiB. m halves first (2 MiB), then n (1.25 MiB), then k (0.75 MiB): all 256
    tiles = cut(product(1, 512, 512, 512), rates())
    assert len(tiles) == 8
    assert {t[3] + t[4] for t in tiles} == {4 * 3 * 256 * 256}


def test_tiles_loop_over_batch_m_n_k_and_only_the_last_k_stores() -> None:
    tiles = cut(product(1, 512, 512, 512), rates())
    stores = [t[2] > 0 for t in tiles]
    assert stores == [False, True] * 4
    # the partial sum is held all the same
    assert {t[4] for t in tiles} == {4 * 256 * 256}


def test_batch_items_share_a_tile_where_one_is_not_cut() -> None:
    # one item: 4*(64*64*3) = 49152 bytes; 1 MiB holds 21
    tiles = cut(product(48, 64, 64, 64), rates())
    assert [t[3] // (4 * 2 * 64 * 64) for t in tiles] == [21, 21, 6]


def test_batch_items_do_not_share_a_tile_where_one_is_cut() -> None:
    assert len(cut(product(3, 512, 512, 512), rates())) == 24


def test_operands_of_a_few_bits_are_rounded_up_to_bytes() -> None:
    # int4 weights: 3 x 5 values are 8 bytes; activations 1 x 3 of 16 bits
    ((_, _, _, operands, result, *_),) = cut(Blocks(Product(1, 1, 3, 5, 16, 4, 16)), rates())
    assert (operands, result) == (6 + 8, 10)


def test_a_stream_is_cut_into_as_few_equal_slices_as_fit() -> None:
    # 1 MiB may be used and 3 MiB + 1 are needed: 4 slices
    tiles = cut(Stream(2 * 2**20 + 1, 2**20, 1000), rates())
    assert [(t[3], t[4]) for t in tiles] == [(524288, 262144)] * 3 + [(524289, 262144)]
    assert [t[5] for t in tiles] == [250] * 4


def test_rounding_never_makes_a_slice_too_large() -> None:
    # 917504 bytes in slices of 65536: 14 would do on average, but the largest would need 37450 + 28087
    tiles = cut(Stream(524_288, 393_216, 1), rates(buffer_bytes="128 KiB"))
    assert len(tiles) == 15
    assert max(t[3] + t[4] for t in tiles) <= 65_536


def test_transforms_in_transit_take_no_lanes() -> None:
    stage = Stream(4096, 4096, work=2048, load_ops=3 * 2048)
    (on_chip,), (in_transit,) = cut(stage, rates()), cut(stage, rates(transit_ops_per_byte=1))
    assert on_chip[1] == 32_000
    assert in_transit[1] == 0
    # 6144 operations at 12.8 G/s are longer than 4096 bytes at 12.8 GB/s
    assert in_transit[0] == 120_000 + 480_000
    assert in_transit[2] == on_chip[2] == 120_000 + 320_000


def test_a_link_transfer_holds_nothing_but_the_link() -> None:
    # PCIe Gen5 x16: 5 us + 64000 B / 64 GB/s
    assert cut(Transfer(64_000), rates()) == [(0, 6_000_000, 0, 0, 0, 64_000, 2)]


@given(machines(), st.integers(1, 50), st.integers(1, 50), st.integers(1, 50), st.integers(1, 9))
def test_products_are_cut_without_loss(spec: AcceleratorSpec, m: int, k: int, n: int, batch: int) -> None:
    found = Rates.of(spec, load_link(spec.link))
    tiles = cut(product(batch, m, k, n), found)
    assert sum(t[5] for t in tiles) == batch * m * k * n
    assert sum(t[4] for t in tiles if t[2]) == 4 * batch * m * n
    assert max(t[3] + t[4] for t in tiles) <= found.tile_bytes


@given(machines(), st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**6))
def test_streams_are_cut_without_loss(spec: AcceleratorSpec, read: int, written: int, work: int) -> None:
    found = Rates.of(spec, load_link(spec.link))
    tiles = cut(Stream(read, written, work), found)
    assert [sum(t[i] for t in tiles) for i in (3, 4, 5)] == [read, written, work]
    assert max(t[3] + t[4] for t in tiles) <= found.tile_bytes


@given(machines(), st.integers(1, 10**12), st.integers(0, 10**12))
def test_durations_are_the_exact_ones_rounded_up(spec: AcceleratorSpec, size: int, ops: int) -> None:
    found = Rates.of(spec, load_link(spec.link))
    rate = min(Fraction(spec.dram_bandwidth_bytes_per_s) / spec.dram_channels, Fraction(spec.noc_bandwidth_bytes_per_s))
    seconds = size / rate
    if spec.transit_ops_per_byte:
        seconds = max(seconds, ops / (spec.transit_ops_per_byte * rate))
    seconds += Fraction(spec.dram_latency_s) + spec.noc_latency_s
    assert found.transfer_ticks(size, ops) == ceil(seconds * found.ticks_per_s)
    assert found.cycle_ticks(size) == ceil(size / Fraction(spec.clock_hz) * found.ticks_per_s)


def test_a_stream_that_cannot_be_cut_is_refused() -> None:
    with pytest.raises(
        LoweringError, match=r"^its smallest tile needs 2 bytes, a tile may use 1 of the buffer's 2 bytes: "
    ):
        cut(Stream(10, 10, 1), rates(buffer_bytes=2))
    assert MOST_TILES == 2**24


def test_a_rate_with_too_many_digits_is_refused() -> None:
    with pytest.raises(
        SpecError, match=r"^edge-npu: rates have too many digits to be exact; round bandwidths, latencies"
    ):
        rates(dram_bandwidth_bytes_per_s=Fraction(10**30 + 1, 10**20 + 3))


def test_between_columns_and_depth_columns_are_halved() -> None:
    # 4 x (32x512 + 512x512 + 32x512) bytes are more than 1 MiB; n halves to 256
    tiles = cut(product(1, 32, 512, 512), rates())
    assert [(t[3], t[4]) for t in tiles] == [(4 * (32 * 512 + 512 * 256), 4 * 32 * 256)] * 2


def test_halves_of_an_odd_number_are_rounded_up() -> None:
    # 4097 rows: 2049, then the 2048 that are left
    tiles = cut(product(1, 4097, 64, 32), rates())
    assert [t[4] for t in tiles] == [4 * 2049 * 32, 4 * 2048 * 32]


def test_what_is_read_beside_the_operands_takes_its_time_and_room() -> None:
    # 768 bytes of operands and 16 of a bias
    assert cut(product(1, 8, 16, 4, beside=16), rates()) == [
        (rates().transfer_ticks(784), 80_000, rates().transfer_ticks(128), 784, 128, 512, 0)
    ]
    # a tile may use 612 bytes. Half as deep: 4 x (8x8 + 8x4 + 8x4) = 512 and half of 200 fit, half of 201 does not
    assert [t[3] for t in cut(product(1, 8, 16, 4, beside=200), rates(buffer_bytes=1224))] == [384 + 100] * 2
    assert len(cut(product(1, 8, 16, 4, beside=201), rates(buffer_bytes=1224))) == 4


def test_results_of_a_few_bits_are_rounded_up_to_bytes() -> None:
    # 5 results of 4 bits are 3 bytes
    ((*_, result, _, _),) = cut(Blocks(Product(1, 1, 3, 5, 16, 4, 4)), rates())
    assert result == 3
