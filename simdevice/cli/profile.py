"""`simacc profile`: a user's script, unchanged, on the simulated device."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from simdevice.cli._common import check_output, console, print_json
from simdevice.cli._options import JsonOption, OutputOption, SetOption, overrides
from simdevice.errors import SpecError

__all__ = ["SETTINGS", "command"]

SETTINGS = {"context_settings": {"allow_interspersed_args": False, "ignore_unknown_options": False}}

Script = Annotated[Path, typer.Argument(metavar="SCRIPT", help="A Python script, run as `python SCRIPT ARGS` would.")]
Arguments = Annotated[list[str] | None, typer.Argument(metavar="[ARGS]...", help="The script's own arguments.")]
Default = Annotated[
    bool, typer.Option("--default-device", help="Make simacc the default device, for a script that names none.")
]
OwnDeviceOption = Annotated[
    str | None,
    typer.Option(
        "--device",
        help="A device by name, or a YAML file (default: what the script configures, else SIMACC_DEVICE or h100).",
    ),
]
Depth = Annotated[int, typer.Option("--depth", min=1, help="How many parts of a module path make a row.")]
Top = Annotated[int, typer.Option("--top", min=1, help="How many operators to list.")]


def command(
    script: Script,
    arguments: Arguments = None,
    device: OwnDeviceOption = None,
    set_: SetOption = None,
    default_device: Default = False,
    output: OutputOption = None,
    depth: Depth = 2,
    top: Top = 10,
    json: JsonOption = False,
) -> int:
    """Run a script and report its simulated time when it ends, also when it raises; its exit code is kept."""
    if not script.is_file():
        raise SpecError(f"cannot run {script}: there is no such file")
    check_output(output)
    import torch

    from simdevice import report
    from simdevice.torch_backend.profile import profile_script

    torch.simacc.configure(device, **overrides(set_))  # type: ignore[attr-defined]
    run, code = profile_script(
        script, arguments or [], default_device=default_device, pinned=device is not None or bool(set_)
    )
    if output is not None:
        run.trace.save(output)
    if json:
        print_json(report.to_dict(run, depth=depth, top=top))
        return code
    out = console()
    out.rule(f"{script.name} on {run.device}")
    if not (run.trace.per_op("category") != _sync()).any():
        out.print("The script ran no operator on simacc: move its model and data there, or give --default-device.")
    else:
        report.print(run, depth=depth, top=top, console=out)
    return code


def _sync() -> int:
    from simdevice.records import CATEGORIES

    return CATEGORIES.index("sync")
