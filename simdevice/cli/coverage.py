"""`simacc coverage`: how much of a model has a known cost, and how much of it a device takes over from its host."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import typer

from simdevice.cli._common import load_or_capture, print_page, progress
from simdevice.cli._options import (
    DeviceOption,
    JsonOption,
    SetOption,
    TargetArgument,
    Tracing,
    overrides,
    tracing_options,
)
from simdevice.errors import SpecError

__all__ = ["command"]

Claim = Annotated[
    list[str] | None,
    typer.Option("--claim", metavar="CATEGORY", help="What the device runs; a host runs the rest. Repeat or comma."),
]
Host = Annotated[
    str | None, typer.Option("--host", help="The host that runs what the device doesn't claim (default: host-cpu).")
]
Opset = Annotated[
    int | None, typer.Option("--opset", help="Of an ONNX file: list what a target refuses that stops at this opset.")
]
Link = Annotated[str | None, typer.Option("--link", help="The link between them (default: the device's).")]


@tracing_options()
def command(
    target: TargetArgument,
    device: DeviceOption = "h100",
    claim: Claim = None,
    host: Host = None,
    link: Link = None,
    opset: Opset = None,
    set_: SetOption = None,
    *,
    tracing: Tracing,
    json: JsonOption = False,
) -> None:
    """Say how much of a model or a trace file has a known cost, and how much of it a device takes from its host."""
    from simdevice import devices
    from simdevice.report.coverage import coverage, operator_types_section

    machine = devices.get(device, **overrides(set_))  # type: ignore[arg-type]  # fields by name, checked when built
    if claim:
        from simdevice.devices.offload import Offload

        claims = [part.strip() for text in claim for part in text.split(",") if part.strip()]
        machine = Offload(machine, claims, host=host or "host-cpu", link=link)
    elif host is not None or link is not None:
        option = "--link" if host is None else "--host"
        raise SpecError(f"{option} goes with --claim: without it there is no host")
    types = _operator_types(target, opset)
    trace = load_or_capture(target, tracing)
    with progress(f"running on {machine.name}"):
        page = coverage(machine.run(trace)).page()
    if types is not None:
        page = replace(page, sections=(*page.sections, operator_types_section(types, opset)))
    print_page(page, as_json=json, piped="markdown")


def _operator_types(target: str, opset: int | None) -> tuple[Any, ...] | None:
    """Those of an ONNX file; None for anything else, which has none."""
    if not target.lower().endswith(".onnx"):
        if opset is not None:
            raise SpecError(f"--opset goes with an ONNX file, not with {target}")
        return None
    from simdevice.frontends.onnx.opsets import check_opset, operator_types

    if opset is not None:
        check_opset(opset)
    return operator_types(target)
