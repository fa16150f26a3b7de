"""What every picture of a report needs: a name that says PNG, and matplotlib. Draws nothing itself."""

from __future__ import annotations

from pathlib import Path

from simdevice.errors import SpecError
from simdevice.extras import extra

__all__ = ["check_picture"]


def check_picture(path: str | Path) -> None:
    """Refuse a picture that could not be written, before the work is done.

    Raises:
        SpecError: a name that ends in anything but .png.
        SimdeviceError: matplotlib is not installed.
    """
    if Path(path).suffix != ".png":
        raise SpecError(f"{path}: expected a name that ends in .png")
    extra("matplotlib", "plots", f"{path}: a picture")
