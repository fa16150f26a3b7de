"""Makes this directory's helper modules importable, whatever pytest's import mode, and gives `simacc`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from simacc_runner import simacc  # noqa: F401  # after the path; a fixture
