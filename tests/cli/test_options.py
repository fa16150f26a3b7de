"""A command that traces takes every tracing option, where it has `tracing` and without naming them."""

from __future__ import annotations

from inspect import signature

import pytest

from simdevice.cli._options import Tracing, tracing_options


@tracing_options(
    without=("batch", "dtype", "cache", "attention", "frontend", "strict", "flop_counter", "dim", "shapes")
)
def command(model: str, first: int = 1, *, tracing: Tracing, last: int = 2) -> tuple[object, ...]:
    """Say what came."""
    return model, first, tracing, last


def test_the_options_stand_where_the_command_has_tracing():
    assert list(signature(command).parameters) == ["model", "first", "tokens", "decode", "scopes", "last"]
    assert command.__doc__ == "Say what came."


def test_the_command_is_handed_one_object_and_left_out_options_keep_their_defaults():
    came = command(model="m", first=3, tokens=4, decode=None, scopes=False, last=5)
    assert came == ("m", 3, Tracing(tokens=4, scopes=False), 5)


@pytest.mark.parametrize("name", ["cost", "coverage", "simulate", "trace"])
def test_commands_that_trace_take_the_same_options(simacc, name):
    shown = simacc(name, "--help").out
    places = [shown.index(f"  --{option.replace('_', '-')} ") for option in vars(Tracing())]
    assert places == sorted(places)


def test_a_sweep_records_no_choice_of_scopes(simacc):
    assert "--scopes" not in simacc("sweep", "--help").out
    assert simacc("sweep", "tiny-cnn", "--no-scopes").complaint.startswith("No such option: --no-scopes")
