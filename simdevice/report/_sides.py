"""Where each operator of a run ran: on the device, on its host, or over the link between them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simdevice.devices.offload import BOUND_NAMES
from simdevice.records import CATEGORIES, Run

__all__ = ["SIDES", "sides"]

SIDES = ("device", "host", "link")


def sides(run: Run) -> NDArray[np.int64] | None:
    """Per row an index into SIDES; None where there is no host. The one place where reports tell such a run."""
    if run.bound is None or run.bound_names != BOUND_NAMES:
        return None
    side: NDArray[np.int64] = np.array([0, 0, 0, 1, 1])[run.bound]
    side[run.trace.per_op("category") == CATEGORIES.index("transfer")] = SIDES.index("link")
    return side
