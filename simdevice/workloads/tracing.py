"""`simdevice.trace`: whatever is a source, through any front end, to a costed Trace."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from simdevice import frontends
from simdevice.costs import Costs, Rule
from simdevice.costs.registry import RuleFunction
from simdevice.errors import CaptureError, SpecError
from simdevice.frontends import Workload
from simdevice.records import Trace
from simdevice.workloads.sources import source

__all__ = ["trace"]


def trace(
    program: Any,
    *args: Any,
    frontend: str | None = None,
    scopes: bool = True,
    rules: Mapping[str, Rule | RuleFunction] | None = None,
    strict: bool = False,
    flop_counter: bool = False,
    **options: Any,
) -> Trace:
    """The operators of one call of a program, with what each costs.

    Args:
        program: a model's name (`models.names()`), a configuration file, an ONNX file, a
            `torch.export.ExportedProgram` or its `.pt2` file, a list of operators or its JSON file,
            `package.module:function`, a module, any callable (a whole training step, say), or a Workload.
        args: what a module or a callable is called with.
        frontend: which road the program takes, one of `frontends.FRONT_ENDS`; its kind's own where none is named.
        scopes: record module paths.
        rules: cost rules by operator name, on top of the registry for this trace only.
        strict: an operator without a rule is an error.
        flop_counter: also take PyTorch's own FlopCounterMode total, for comparison.
        options: those of the program's kind. A name or a configuration file: `tokens` (a prefill) or `decode` (one
            step after that many tokens), `batch` sequences at once, `dtype`, `cache` (False: the prefill fills none). A
            module: `tokens`, `decode`, `batch` and `cache`, or `kwargs` beside `args`. A callable: `kwargs`. An ONNX
            file: `dims` (sizes of open dimensions by name), `inputs` (contents by name, where the walk needs them),
            `shapes` ("infer", or "run" for those of one run in ONNX Runtime). An exported program: `dims`. All that
            PyTorch runs: `attention`, "fused" for the operators of a CPU, without data, or "math" for products and
            softmax.

    Raises:
        SimdeviceError: an unknown name, an option or a front end of another kind, inputs that can't be made, or
            (strict) an uncosted operator.
    """
    capture = None if frontend is None else frontends.get(frontend)
    chosen = source(program, args, options)
    workload = chosen.workload()
    own = workload.front_ends
    if frontend is not None and frontend not in own:
        named = f"{chosen.kind} ({workload.name})" if workload.name else chosen.kind
        only = f"the {frontend!r} front end can't take {named}: only {' and '.join(map(repr, own))} can"
        why = getattr(workload.program, "why", "")
        raise CaptureError(f"{only} ({why})" if why else only)
    if flop_counter and not set(own) & {"dispatch", "export"}:
        raise SpecError(f"flop_counter is PyTorch's own count, and PyTorch doesn't run {chosen.kind}")
    capture = capture or frontends.get(own[0])
    taken = frontend or own[0]
    if options.get("cache") and (taken in ("export", "onnx") or (taken == "compile" and workload.attention != "fused")):
        raise SpecError(
            f"the {taken!r} front end switches the key-value cache off, which is no tensor: leave cache out"
        )
    if taken in ("export", "onnx"):
        workload = replace(workload, stand_ins=False)  # they look at no tensor's numbers
    with _attention(workload) as fake:
        return capture(workload, Costs(rules, strict=strict), fake=fake, scopes=scopes, flop_counter=flop_counter)


@contextmanager
def _attention(workload: Workload) -> Iterator[str | None]:
    """Which tensors without data give the attention that is asked for; None for the workload's own, as they are."""
    fake = "cpu" if workload.stand_ins or workload.attention == "fused" else None
    if workload.attention != "math" and not (workload.stand_ins and workload.attention is None):
        yield fake
        return
    from torch.nn.attention import SDPBackend, sdpa_kernel  # a file is walked without PyTorch

    with sdpa_kernel(SDPBackend.MATH):
        yield fake
