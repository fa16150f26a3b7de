"""Parse and print quantities: bytes, seconds, hertz and rates. Time inside the simulator is integer
picoseconds; this module is where it meets people."""

from __future__ import annotations

import re
from fractions import Fraction

from simdevice.errors import UnitError, nearest

__all__ = [
    "PS_PER_S",
    "ceil_div",
    "exact",
    "format_bytes",
    "format_count",
    "format_seconds",
    "parse_quantity",
    "seconds_to_ps",
]

PS_PER_S = 10**12

_DECIMAL = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18}
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50}
_FRACTIONS = {
    "m": Fraction(1, 10**3),
    "u": Fraction(1, 10**6),
    "µ": Fraction(1, 10**6),
    "n": Fraction(1, 10**9),
    "p": Fraction(1, 10**12),
}
_QUANTITY = re.compile(r"\s*([-+]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*(\S*)\s*")


def _scales(base: str) -> dict[str, Fraction]:
    """Every spelling of a unit with its factor: `{"GB": 10**9, "GiB": 2**30, ...}` for base "B"."""
    small = _FRACTIONS if base == "s" else {}
    large = _DECIMAL | (_BINARY if base.startswith("B") else {})
    return {p + base: Fraction(f) for p, f in (large | small).items() if base != "s" or p in ("", *small)}


_UNITS = {u: _scales(u) for u in ("B", "B/s", "s", "Hz", "FLOP/s", "OP/s", "OP/B", "")}


def exact(value: float | int | str | Fraction) -> Fraction:
    """The rational number a person meant: a float is read as its shortest decimal, 1e-7 as 1/10**7."""
    return Fraction(repr(value)) if isinstance(value, float) else Fraction(value)


def parse_quantity(text: str | float | int, unit: str) -> Fraction:
    """Read "25.6 GB/s" as the exact number of `unit`s; plain numbers pass.

    Raises:
        UnitError: not a number, or a unit that is not a multiple of `unit`.
    """
    if isinstance(text, bool) or not isinstance(text, (str, int, float)):
        raise UnitError(f"expected a quantity in {unit or 'plain numbers'}, got {text!r}")
    if not isinstance(text, str):
        return exact(text)
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise UnitError(f"expected a number with a unit such as '1 {unit or 'K'}', got {text!r}")
    number, suffix = match.groups()
    scales = _UNITS[unit]
    if suffix and suffix not in scales:
        raise UnitError(f"unit {suffix!r} in {text!r} is not a unit of {unit or 'a count'}{nearest(suffix, scales)}")
    return Fraction(number.replace("_", "")) * (scales[suffix] if suffix else 1)


def ceil_div(numerator: int, denominator: int) -> int:
    """Integer division rounded up; durations never round down."""
    return -(-numerator // denominator)


def seconds_to_ps(seconds: float | str | Fraction) -> int:
    """Whole picoseconds, rounded up."""
    value = exact(seconds) * PS_PER_S
    return ceil_div(value.numerator, value.denominator)


def _scaled(value: float, steps: list[tuple[float, str]]) -> str:
    for factor, name in steps:
        if abs(value) >= factor:
            return f"{value / factor:,.3f}".rstrip("0").rstrip(".") + f" {name}"
    factor, name = steps[-1]
    return f"{value / factor:,.3f}".rstrip("0").rstrip(".") + f" {name}"


def format_seconds(seconds: float) -> str:
    """1.23e-4 as "123 us"."""
    if seconds == 0:
        return "0 s"
    return _scaled(seconds, [(1, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"), (1e-12, "ps")])


def format_bytes(count: float) -> str:
    """15026626560 as "15.027 GB" (decimal, as bandwidths are)."""
    return _scaled(count, [(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "B")])


def format_count(count: float, unit: str = "FLOP") -> str:
    """32_970_000_000_000 as "32.97 TFLOP"."""
    prefixes = ((15, "P"), (12, "T"), (9, "G"), (6, "M"), (3, "k"), (0, ""))
    return _scaled(count, [(10.0**power, f"{prefix}{unit}") for power, prefix in prefixes])
