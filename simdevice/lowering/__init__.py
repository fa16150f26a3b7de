"""Lowering: Trace to Program of tiles, in Python or in C++."""

from __future__ import annotations

from simdevice.hardware import AcceleratorSpec, load_link
from simdevice.lowering.base import Lowering, LoweringKind
from simdevice.lowering.plan import Plan
from simdevice.lowering.python import PythonLowering
from simdevice.lowering.rates import Rates
from simdevice.records import Program, Trace

__all__ = ["Lowering", "LoweringKind", "Plan", "PythonLowering", "Rates", "fastest", "lower"]


def fastest() -> LoweringKind:
    """The lowering in C++, or in Python where nothing is compiled. Both give the same Program."""
    try:
        from simdevice.lowering.native import NativeLowering
    except ImportError:
        return PythonLowering
    return NativeLowering


def lower(trace: Trace, spec: AcceleratorSpec) -> Program:
    """The Program of a whole trace on one machine, by the specification.

    Raises:
        LoweringError: an operator that can't be cut into tiles for this machine.
    """
    return PythonLowering(trace.table, Rates.of(spec, load_link(spec.link))).lower(trace.rows)
