"""What every front end takes and gives: a Workload in, a Trace out. No behaviour of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from simdevice.costs import Costs
from simdevice.records import Trace

__all__ = ["ATTENTION", "Document", "FrontEnd", "Workload"]

ATTENTION = ("fused", "math")
"""Attention as one operator, or as products and a softmax."""


RUN = ("dispatch", "export", "compile", "onnx")
"""Front ends of what PyTorch runs."""


class Document:
    """A program that is read, not called: says which front ends read it, its own first, and why no other."""

    front_ends: ClassVar[tuple[str, ...]]
    why: ClassVar[str] = ""


@dataclass(frozen=True)
class Workload:
    """A program with the inputs it is asked with.

    `program` is a `torch.nn.Module` or any callable. `warm_up` runs outside the trace, on the device
    the trace will show, and gives the arguments of the traced call: a decode step fills its key-value
    cache there. `path` says which of a library's ways through a model this is. `attention` is one of ATTENTION, or None
    for what the tensors' own device does. `stand_ins`: on tensors of a CPU without data whatever the attention, since
    the program asks its tensors for numbers, which those of the meta device don't have.
    """

    program: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""
    description: str = ""
    path: str = ""
    warm_up: Callable[[Workload], tuple[tuple[Any, ...], Mapping[str, Any]]] | None = None
    attention: str | None = None
    stand_ins: bool = False

    @property
    def front_ends(self) -> tuple[str, ...]:
        """Those that can take it, its own first."""
        return self.program.front_ends if isinstance(self.program, Document) else RUN


class FrontEnd(Protocol):
    """One implementation per file, found by its name.

    `fake` is None (the tensors as they are) or "cpu" (no data, but the operators a CPU would run).
    `scopes` records module paths; `flop_counter` also asks PyTorch's own FlopCounterMode.
    """

    def __call__(
        self, workload: Workload, costs: Costs, *, fake: str | None, scopes: bool, flop_counter: bool
    ) -> Trace: ...
