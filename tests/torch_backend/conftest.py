"""Every test starts on an H100 at time zero, without launch overhead."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture(autouse=True)
def device():
    torch.simacc.configure("h100")
    yield "simacc"
    torch.simacc.configure("h100")
