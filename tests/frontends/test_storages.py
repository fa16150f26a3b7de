"""Serial numbers of storages: one per storage, whatever is learnt of it later."""

from __future__ import annotations

import torch
from torch import nn

from simdevice.frontends.storages import StorageIds


def test_a_storage_seen_before_it_is_known_for_a_weight_keeps_its_number() -> None:
    with StorageIds() as ids:
        first, second = torch.ones(4), torch.ones(4)
        assert ids.of(first) == (0, False)
        assert ids.of(second) == (1, False)
        ids.weights([first])
        assert ids.of(first[1:]) == (0, True)  # a view of it, too
        assert ids.of(torch.ones(2)) == (2, False)
        assert len(ids) == 3


def test_two_parameters_of_one_storage_are_one_number() -> None:
    whole = torch.ones(4)
    with StorageIds() as ids:
        ids.weights([nn.Parameter(whole[:2]), nn.Parameter(whole[2:])])
        assert len(ids) == 1
        assert ids.of(whole) == (0, True)
