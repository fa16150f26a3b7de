"""Put an accelerator that does not exist yet under real programs. Names are imported when first used:
`import simdevice` needs neither torch nor pydantic."""

from __future__ import annotations

from importlib import import_module, metadata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simdevice.devices import get as device
    from simdevice.records import Run, Trace
    from simdevice.report.coverage import coverage
    from simdevice.sweeps import Range, sweep
    from simdevice.workloads import models
    from simdevice.workloads.tracing import trace

__all__ = ["Range", "Run", "Trace", "coverage", "device", "models", "sweep", "trace"]

_WHERE = {
    "Range": "simdevice.sweeps:Range",
    "Run": "simdevice.records:Run",
    "Trace": "simdevice.records:Trace",
    "coverage": "simdevice.report.coverage:coverage",
    "device": "simdevice.devices:get",
    "models": "simdevice.workloads.models",
    "sweep": "simdevice.sweeps:sweep",
    "trace": "simdevice.workloads.tracing:trace",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return metadata.version("simdevice")
    if name not in _WHERE:
        raise AttributeError(f"module 'simdevice' has no attribute {name!r}")
    module, _, attribute = _WHERE[name].partition(":")
    found = import_module(module)
    value = getattr(found, attribute) if attribute else found
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_WHERE})
