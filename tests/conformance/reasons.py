"""Why a sample that the CPU passes may not pass on simacc. What no reason covers is a failure.

Samples that a reason covers are run like all others, and count in the denominator: a reason explains, it excuses
nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .cases import UNSTEADY, Case


@dataclass(frozen=True, slots=True)
class Reason:
    """`text` says what would remove it. Covers cases whose string and whose difference the patterns match."""

    text: str
    case: str
    difference: str

    def covers(self, case: Case, difference: str) -> bool:
        return bool(re.search(self.case, str(case)) and re.search(self.difference, difference))


REASONS = (
    Reason(
        "Sparse tensors are refused, in one sentence. Removed by sparse layouts on the device.",
        r"",
        r"simacc has no sparse tensors",
    ),
    Reason(
        "The CPU itself gives other bits when asked again: PyTorch leaves the pivots that LAPACK's `gelsy` starts from "
        "unwritten. Removed by PyTorch writing them.",
        r"^forward: linalg\.lstsq",
        r" of \d+ values$",
    ),
    Reason(
        "The CPU gives other bits when it is asked again. Removed by a CPU kernel that does not.",
        r"",
        rf"{UNSTEADY}: ",
    ),
    Reason(
        "Left to choose, these optimizers take their `foreach` form on every accelerator and their loop on the CPU; in "
        "either form, named, they are the CPU's. Removed by PyTorch choosing alike.",
        r"^optimizer: (ASGD|NAdam|RAdam) ",
        r" of \d+ values$",
    ),
    Reason(
        "PyTorch plans the chunks of `linear_cross_entropy` from a table of device types, which gives half precision "
        "sums of another type elsewhere than on the CPU. Removed by an entry of simacc's own in that table.",
        r"nn\.functional\.linear_cross_entropy\.chunked",
        r" of \d+ values$",
    ),
)


def reason_for(case: Case, difference: str) -> Reason | None:
    return next((r for r in REASONS if r.covers(case, difference)), None)
