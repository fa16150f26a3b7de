"""`simacc profile`: a user's script, unchanged, on the simulated device."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from pathlib import Path
from typing import Annotated

import typer

from simdevice.cli._common import check_output, console, print_json, print_saved, progress
from simdevice.cli._options import JsonOption, OutputOption, SetOption, overrides
from simdevice.errors import SimdeviceError, SpecError
from simdevice.extras import extra

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
Devices = Annotated[
    int | None,
    typer.Option(
        "--devices", min=1, max=16, help="How many of it: simacc:0, simacc:1, ... (default: SIMACC_DEVICES or 1)."
    ),
]
Depth = Annotated[int, typer.Option("--depth", min=1, help="How many parts of a module path make a row.")]
Top = Annotated[int, typer.Option("--top", min=1, help="How many operators to list.")]


def command(
    script: Script,
    arguments: Arguments = None,
    device: OwnDeviceOption = None,
    devices: Devices = None,
    set_: SetOption = None,
    default_device: Default = False,
    output: OutputOption = None,
    depth: Depth = 2,
    top: Top = 10,
    json: JsonOption = False,
) -> int:
    """Run a script and report its simulated time when it ends, also when it raises; its exit code is kept."""
    if script.is_dir():
        raise SpecError(f"cannot run {script}: it is a folder")
    if not script.is_file():
        raise SpecError(f"cannot run {script}: there is no such file")
    check_output(output)
    torch = extra("torch", "torch", "profiling")

    from simdevice import report
    from simdevice.torch_backend.build import BuildError
    from simdevice.torch_backend.profile import profile_script

    try:
        torch.simacc.configure(device, devices=devices, **overrides(set_))
    except BuildError as error:  # no compiler, say: setup.py runs that file by path, so it knows no family of ours
        raise SimdeviceError(str(error)) from error
    pinned = device is not None or bool(set_)
    with _output_to_standard_error() if json else nullcontext():
        run, code = profile_script(script, arguments or [], default_device=default_device, pinned=pinned)
    if output is not None:
        with progress(f"writing {output}"):
            run.trace.save(output)
    if json:
        found = report.to_dict(run, depth=depth, top=top)
        print_json({**found, "saved": None if output is None else str(output)})
        return code
    out = console()
    out.rule(f"{script.name} on {run.device}")
    if not (run.trace.per_op("category") != _sync()).any():
        out.print("The script ran no operator on simacc: move its model and data there, or give --default-device.")
    else:
        report.print(run, depth=depth, top=top, console=out)
    if output is not None:
        print_saved(output)
    return code


@contextmanager
def _output_to_standard_error() -> Iterator[None]:
    """Standard output of what runs inside goes to standard error: Python's own, C code's and child processes'."""
    if sys.__stdout__ is None or sys.__stderr__ is None:  # closed (`2>&-`): descriptors 1 and 2 may be other files now
        with redirect_stdout(sys.stderr):
            yield
        return
    _flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        _flush()
        os.dup2(kept, 1)
        os.close(kept)


def _flush() -> None:
    """What Python and C still hold back for descriptor 1 goes where it leads now."""
    if sys.__stdout__ is not None and not sys.__stdout__.closed:
        sys.__stdout__.flush()
    ctypes.CDLL(None).fflush(None)


def _sync() -> int:
    from simdevice.records import CATEGORIES

    return CATEGORIES.index("sync")
