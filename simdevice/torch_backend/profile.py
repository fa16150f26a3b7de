"""Run a user's script as `python script.py` would, inside a recording. Prints nothing of its own."""

from __future__ import annotations

import runpy
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import torch

from simdevice.records import Run
from simdevice.torch_backend.machine import pin
from simdevice.torch_backend.recording import Recording

__all__ = ["profile_script"]


def profile_script(
    script: Path, arguments: list[str], *, default_device: bool = False, pinned: bool = False
) -> tuple[Run, int]:
    """The simulated run of everything the script did on simacc, on all its threads, and the exit code Python gives it.

    `default_device` makes simacc the default device, so that a script that names none runs there.
    A script that calls configure() is simulated on the machine it chose last; `pinned`, on the current one.
    An exception ends the script, not the profile: its traceback is printed and the code is 1.
    """
    with (
        pin() if pinned else nullcontext(),
        Recording(follows=True, on_all_threads=True) as rec,
        _as_main(script, arguments),
    ):
        if default_device:
            torch.set_default_device("simacc")
        try:
            runpy.run_path(str(script), run_name="__main__")
            code = 0
        except SystemExit as left:
            code = _exit_code(left.code)
        except KeyboardInterrupt:
            code = 130
        except BaseException as error:
            _print_traceback(error, script)
            code = 1
        finally:
            torch.set_default_device(None)
    return rec.run, code


@contextmanager
def _as_main(script: Path, arguments: list[str]) -> Iterator[None]:
    """sys.argv and sys.path[0] as the script expects them."""
    argv, path = sys.argv, sys.path[:]
    sys.argv = [str(script), *arguments]
    sys.path[0] = str(script.resolve().parent)
    try:
        yield
    finally:
        sys.argv, sys.path[:] = argv, path


def _exit_code(code: object) -> int:
    """What `sys.exit(code)` means: None is 0, text is printed and is 1."""
    if code is None:
        return 0
    if isinstance(code, int):
        return code
    print(code, file=sys.stderr)
    return 1


def _print_traceback(error: BaseException, script: Path) -> None:
    """As Python would: from the script's own frame on."""
    frames = error.__traceback__
    while frames is not None and Path(frames.tb_frame.f_code.co_filename) != script:
        frames = frames.tb_next
    traceback.print_exception(type(error), error, frames)  # none: it does not even compile
