"""Device memory: what is counted, what the capacity refuses, what the host refuses."""

from __future__ import annotations

import re

import pytest
import torch
from torch import nn


def live_bytes() -> int:
    return torch.simacc.memory_allocated()


def test_storages_are_counted_once_and_freed():
    start = live_bytes()
    x = torch.empty(1000, device="simacc")
    view = x.view(10, 100)
    assert live_bytes() - start == 4000
    y = x + view.flatten()
    assert live_bytes() - start == 8000
    del y
    assert live_bytes() - start == 4000
    del x, view
    assert live_bytes() == start


def test_resizing_an_out_argument_is_counted():
    start = live_bytes()
    out = torch.empty(0, device="simacc")
    torch.add(torch.ones(256, device="simacc"), 1, out=out)
    assert out.shape == (256,)
    assert live_bytes() - start == 1024
    out.untyped_storage().resize_(2048)
    assert live_bytes() - start == 2048


def test_peak_and_accelerator_statistics():
    torch.simacc.reset_peak_memory_stats()
    start = live_bytes()
    x = torch.empty(1_000_000, device="simacc")
    del x
    assert torch.simacc.max_memory_allocated() - start == 4_000_000
    assert torch.accelerator.memory_allocated() == start
    assert torch.accelerator.max_memory_allocated() == torch.simacc.max_memory_allocated()
    free, total = torch.simacc.mem_get_info()
    assert total == 80_000_000_000
    assert total - free == start
    assert torch.accelerator.get_memory_info() == (free, total)


def test_a_model_larger_than_the_device_is_out_of_memory():
    torch.simacc.configure("h100", memory_capacity_bytes="1 MB")
    model = nn.Linear(1000, 1000)  # 4 MB
    with pytest.raises(
        torch.OutOfMemoryError,
        match=r"^simacc:0 out of memory: tried to allocate 4000000 bytes, but \d+ bytes of the 1000000 bytes of device "
        r"h100 are in use; configure a larger memory_capacity_bytes or free tensors$",
    ):
        model.to("simacc")


def test_what_little_is_there_is_said_in_bytes():
    start = live_bytes()
    torch.simacc.configure("h100", memory_capacity_bytes=start + 1_000_000)
    held = torch.empty(200_000, device="simacc")
    with pytest.raises(
        torch.OutOfMemoryError,
        match=rf"tried to allocate 800000 bytes, but {start + 800_000} bytes of the {start + 1_000_000} bytes of ",
    ):
        torch.empty_like(held)


def test_results_past_the_capacity_are_refused_and_nothing_stays_charged():
    start = live_bytes()
    torch.simacc.configure("h100", memory_capacity_bytes=start + 10_000_000)
    x = torch.empty(1_000_000, device="simacc")
    with pytest.raises(torch.OutOfMemoryError):
        torch.cat([x, x])
    assert live_bytes() - start == 4_000_000
    assert (x + 1).shape == x.shape


@pytest.mark.parametrize("make", [torch.empty, torch.zeros, torch.ones, torch.randn])
def test_an_allocation_beyond_the_host_is_refused_first(make):
    torch.simacc.configure("h100", memory_capacity_bytes="100 TB")
    with pytest.raises(
        torch.OutOfMemoryError,
        match=r"^simacc keeps device memory in host memory: an allocation of 38146972 MiB is more than the \d+ MiB "
        r"this host still has; trace the model without weights \(meta device\) or use a larger host$",
    ):
        make(10_000_000_000_000, device="simacc")


def test_a_result_beyond_the_host_is_refused_first():
    torch.simacc.configure("h100", memory_capacity_bytes="100 TB")
    x = torch.ones(1, device="simacc").expand(10_000_000_000_000)
    with pytest.raises(torch.OutOfMemoryError, match=re.escape("more than the")):
        x.clone()


@pytest.mark.parametrize(
    ("enlarge", "first", "last"),
    [
        (lambda x: x.resize_(10_000_000), 0.0, 999.0),
        (lambda x: torch.zeros(10_000_000, device="simacc", out=x), 0.0, 0.0),  # refused after it has computed
    ],
)
def test_growing_past_the_capacity_leaves_size_and_charge_as_they_were(enlarge, first, last):
    start = live_bytes()
    torch.simacc.configure("h100", memory_capacity_bytes=start + 1_000_000)
    x = torch.arange(1000.0, device="simacc")
    with pytest.raises(torch.OutOfMemoryError):
        enlarge(x)
    assert x.shape == (1000,)
    assert x.untyped_storage().nbytes() == live_bytes() - start == 4000
    x.add_(1)  # a size that had stayed behind would be charged again here
    assert (x[0].item(), x[-1].item()) == (first + 1, last + 1)
