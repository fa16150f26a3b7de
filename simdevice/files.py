"""Files: where the shipped descriptions are, and writing so that nothing half-written is left behind."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import resources
from pathlib import Path
from typing import IO, Any

from simdevice.errors import SpecError

__all__ = ["atomic_write", "config_root"]

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def config_root() -> Path:
    """The shipped descriptions: `simdevice/configs` when installed, `configs` beside the package in a checkout."""
    package = Path(str(resources.files("simdevice")))
    shipped = package / "configs"
    return shipped if shipped.is_dir() else package.parent / "configs"


@contextmanager
def atomic_write(path: str | Path, mode: str = "w") -> Iterator[IO[Any]]:
    """A file that appears under `path` only when the block ends well: a temporary neighbour, then a rename.

    Raises:
        SpecError: no file can be made there.
    """
    target = Path(path)
    if target.is_dir():
        raise SpecError(f"cannot write {target}: it is a folder")
    try:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    except OSError as error:
        raise SpecError(f"cannot write {target}: {error.strerror} ({target.parent})") from None
    try:
        with os.fdopen(handle, mode, encoding=None if "b" in mode else "utf-8") as file:
            yield file
        os.chmod(name, 0o644)  # mkstemp gives owner-only permissions
        os.replace(name, target)
    except BaseException as error:
        with suppress(FileNotFoundError):
            os.unlink(name)
        if isinstance(error, OSError) and error.errno in _NO_ROOM:
            raise SpecError(f"cannot write {target}: {error.strerror}") from None
        raise
