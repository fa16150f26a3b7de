"""Every test starts on one H100 at time zero, without launch overhead."""

from __future__ import annotations

import gc

import pytest
import torch


@pytest.fixture(autouse=True)
def device():
    torch.simacc.configure("h100")
    yield "simacc"
    if torch.simacc.device_count() > 1:
        gc.collect()  # what a failed test's exception holds would keep a device
        torch.simacc.configure(devices=1)
    torch.simacc.configure("h100")
