"""Quantities are read exactly and printed shortly."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simdevice.errors import UnitError
from simdevice.units import (
    ceil_div,
    exact,
    format_bytes,
    format_count,
    format_seconds,
    parse_quantity,
    seconds_to_ps,
)


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("512 KiB", "B", 524_288),
        ("2MiB", "B", 2_097_152),
        ("80 GB", "B", 80_000_000_000),
        ("25.6 GB/s", "B/s", 25_600_000_000),
        ("1.5 GHz", "Hz", 1_500_000_000),
        ("989 TFLOP/s", "FLOP/s", 989 * 10**12),
        ("100 ns", "s", Fraction(1, 10**7)),
        ("5 us", "s", Fraction(1, 200_000)),
        ("5 µs", "s", Fraction(1, 200_000)),
        ("0.1", "", Fraction(1, 10)),
        ("1_000", "B", 1_000),
        ("1e9", "Hz", 10**9),
        (0.1, "", Fraction(1, 10)),
        (1e-7, "s", Fraction(1, 10**7)),
        (7, "B", 7),
        ("-3 GB/s", "B/s", -3 * 10**9),
    ],
)
def test_quantities_are_exact(text, unit, value):
    assert parse_quantity(text, unit) == value


@pytest.mark.parametrize(
    ("text", "unit", "message"),
    [
        ("512 Ki", "B", "unit 'Ki' in '512 Ki' is not a unit of B: did you mean 'KiB'?"),
        ("fast", "B/s", "expected a number with a unit such as '1 B/s', got 'fast'"),
        ("", "s", "expected a number with a unit such as '1 s', got ''"),
        (True, "B", "expected a quantity in B, got True"),
        ([1], "", "expected a quantity in plain numbers, got [1]"),
        ("1 kHz", "s", "unit 'kHz' in '1 kHz' is not a unit of s: expected one of ms, ns, ps, s, us, µs"),
    ],
)
def test_what_cannot_be_read_says_what_was_expected(text, unit, message):
    with pytest.raises(UnitError) as caught:
        parse_quantity(text, unit)
    assert str(caught.value) == message


@given(st.integers(0, 10**30), st.integers(1, 10**15))
def test_ceil_div_is_the_least_integer_that_covers(numerator, denominator):
    quotient = ceil_div(numerator, denominator)
    assert quotient * denominator >= numerator > (quotient - 1) * denominator


@given(st.fractions(0, 10**6))
def test_durations_never_round_down(seconds):
    assert 0 <= seconds_to_ps(seconds) - seconds * 10**12 < 1


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_means_its_shortest_decimal(value):
    assert float(exact(value)) == value
    assert exact(value) == Fraction(repr(value))


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (format_seconds(0), "0 s"),
        (format_seconds(1.23e-4), "123 us"),
        (format_seconds(0.0517), "51.7 ms"),
        (format_seconds(90), "90 s"),
        (format_bytes(15_026_626_560), "15.027 GB"),
        (format_bytes(0), "0 B"),
        (format_count(32_970_000_000_000), "32.97 TFLOP"),
        (format_count(12, "MAC"), "12 MAC"),
    ],
)
def test_numbers_are_shown_in_a_fitting_unit(shown, expected):
    assert shown == expected
