"""What every picture of a report needs: a name that says PNG, matplotlib, and its bytes. Draws nothing itself."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

from simdevice.errors import SpecError
from simdevice.extras import extra

__all__ = ["check_picture", "png"]


def check_picture(path: str | Path) -> None:
    """Refuse a picture that could not be written, before the work is done.

    Raises:
        SpecError: a name that ends in anything but .png.
        SimdeviceError: matplotlib is not installed.
    """
    if Path(path).suffix != ".png":
        raise SpecError(f"{path}: expected a name that ends in .png")
    extra("matplotlib", "plots", f"{path}: a picture")


def png(figure: Any) -> bytes:
    """A matplotlib figure as the bytes of a PNG file."""
    out = BytesIO()
    figure.savefig(out, format="png", dpi=110)
    return out.getvalue()
