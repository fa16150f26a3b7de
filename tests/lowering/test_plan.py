"""A Plan cut for a machine is what the lowering makes of the trace for it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lowering_strategies import machines, traces

from simdevice.errors import LoweringError
from simdevice.hardware import AcceleratorSpec, load_link
from simdevice.lowering import LoweringKind, Plan, PythonLowering, Rates, fastest
from simdevice.lowering.native import NativeLowering
from simdevice.records import Program, Trace

BOTH = pytest.mark.parametrize("kind", [PythonLowering, NativeLowering])


def attempt(make: object, *arguments: object) -> Program | str:
    try:
        return make(*arguments)  # type: ignore[operator, no-any-return]
    except LoweringError as error:
        return str(error)


@BOTH
@settings(max_examples=80)
@given(traces(), st.lists(machines(), min_size=1, max_size=3))
def test_a_plan_gives_each_machine_its_program_or_its_refusal(
    kind: LoweringKind, trace: Trace, specs: list[AcceleratorSpec]
) -> None:
    plan = Plan(kind, trace)
    for spec in specs:
        rates = Rates.of(spec, load_link(spec.link))
        assert attempt(plan.program, rates) == attempt(kind(trace.table, rates).lower, trace.rows)


def test_the_fastest_lowering_is_the_compiled_one() -> None:
    assert fastest() is NativeLowering
