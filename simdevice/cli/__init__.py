"""The `simacc` command: one file per command, found by its name; what goes wrong is one line and exit code 2."""

from __future__ import annotations

import sys
from importlib import import_module, metadata
from pkgutil import iter_modules
from typing import Annotated, Any

import typer

from simdevice.errors import OpenDimensionsError, SimdeviceError

__all__ = ["app", "main"]

# typer carries a click of its own; this is that one's base class of everything it says to a user.
_UsageError: Any = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")


def app() -> typer.Typer:
    """All commands: every module here without an underscore has `command`, and `SETTINGS` for typer if it needs any."""
    cli = typer.Typer(
        name="simacc",
        help="Trace programs, cost them, and run them on accelerators that do not exist yet.",
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        add_completion=False,
        no_args_is_help=True,
    )
    cli.callback()(_root)
    for module in iter_modules(__path__):
        if not module.name.startswith("_"):
            loaded = import_module(f"{__name__}.{module.name}")
            cli.command(module.name, **getattr(loaded, "SETTINGS", {}))(loaded.command)
    return cli


def _version(asked: bool) -> None:
    if asked:
        print(f"simacc {metadata.version('simdevice')}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_version, help="Show the version and exit.")
    ] = False,
) -> None:
    """Trace programs, cost them, and run them on accelerators that do not exist yet."""


def main(arguments: list[str] | None = None) -> None:
    """Run a command and leave with its exit code: 0, or 2 for bad arguments and bad input."""
    sys.exit(_run(sys.argv[1:] if arguments is None else arguments))


def _run(arguments: list[str]) -> int:
    command = typer.main.get_command(app())
    try:
        code = command(arguments or ["--help"], prog_name="simacc", standalone_mode=False)
    except _UsageError as error:
        return _fail(error.format_message())
    except OpenDimensionsError as error:
        return _fail(error.with_command(["simacc", *arguments]))
    except SimdeviceError as error:
        return _fail(str(error))
    except (typer.Abort, KeyboardInterrupt):
        return 130
    except SystemExit as left:
        if isinstance(left.__context__, BrokenPipeError):  # so click and rich leave when a reader had enough: `| head`
            return 0
        raise
    return code if isinstance(code, int) else 0


def _fail(message: str) -> int:
    print(f"simacc: {' '.join(message.split())}", file=sys.stderr)
    return 2
