"""Why a sample that the CPU passes may not pass on simacc. What no reason covers is a failure.

Samples that a reason covers are run like all others, and count in the denominator: a reason explains, it excuses
nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .cases import Case


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
        "Sparse tensors are refused, in one sentence; removed when the device has sparse layouts.",
        r"",
        r"simacc has no sparse",
    ),
)


def reason_for(case: Case, difference: str) -> Reason | None:
    return next((r for r in REASONS if r.covers(case, difference)), None)
