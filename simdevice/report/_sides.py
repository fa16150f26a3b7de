"""Where each operator of a run ran: on the device, on its host, or over the link between them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simdevice.records import SIDES, Run

__all__ = ["SIDES", "sides"]


def sides(run: Run) -> NDArray[np.int64] | None:
    """Per row an index into SIDES; None where there is no host."""
    return run.side.astype(np.int64) if run.crossings else None
