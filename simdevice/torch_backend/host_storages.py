"""Numbers for storages on the host, out of the device's own: for rows of work that no simacc tensor took part in."""

from __future__ import annotations

from collections.abc import Callable

import torch

from simdevice.frontends.storages import StorageIds

__all__ = ["HostStorages"]


class HostStorages:
    """Names each storage for as long as a recording lasts. `fresh` gives the next number of the device."""

    def __init__(self, fresh: Callable[[], int]) -> None:
        self.fresh = fresh
        self._serials = StorageIds()
        self._numbers: list[int] = []

    def of(self, tensor: torch.Tensor) -> int:
        """The storage's number; -1 for a tensor without one."""
        serial, _ = self._serials.of(tensor)
        while serial >= len(self._numbers):
            self._numbers.append(self.fresh())
        return self._numbers[serial] if serial >= 0 else serial

    def close(self) -> None:
        """Let go of what it watches."""
        self._serials.close()
