"""Errors are one family, one line, and name the nearest valid name."""

from __future__ import annotations

import pytest

from simdevice import errors
from simdevice.errors import SimdeviceError, UnknownNameError, nearest


def test_every_error_is_of_the_family():
    kinds = [getattr(errors, name) for name in errors.__all__ if isinstance(getattr(errors, name), type)]
    assert len(kinds) >= 8
    assert all(issubclass(kind, SimdeviceError) for kind in kinds)


@pytest.mark.parametrize(
    ("name", "valid", "tail"),
    [
        ("h10", ["h100", "a100"], ": did you mean 'h100'?"),
        ("xyz", ["h100", "a100"], ": expected one of a100, h100"),
        ("xyz", [], ": none is known"),
        (
            "xyz",
            [f"n{i:02}" for i in range(20)],
            ": expected one of " + ", ".join(f"n{i:02}" for i in range(12)) + ", ... (20 in all)",
        ),
    ],
)
def test_the_nearest_name_is_suggested(name, valid, tail):
    assert nearest(name, valid) == tail


def test_an_unknown_name_says_its_kind_and_keeps_its_parts():
    error = UnknownNameError("device", "h10", ["h100"])
    assert str(error) == "unknown device 'h10': did you mean 'h100'?"
    assert (error.kind, error.name, error.valid) == ("device", "h10", ["h100"])
    assert isinstance(error, LookupError)


def test_bad_values_are_value_errors_too():
    """Callers that know only Python's own exceptions can catch them."""
    for kind in (errors.SpecError, errors.UnitError, errors.FileFormatError, errors.LoweringError):
        assert issubclass(kind, ValueError)
