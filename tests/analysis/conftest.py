"""Makes the helper modules of records and of reports importable, whatever pytest's import mode."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1] / room) for room in ("records", "report")]
