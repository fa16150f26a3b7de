"""Random numbers of the devices. A part of `torch.simacc`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from simdevice.torch_backend.places import device_count, index_of, loaded
from simdevice.torch_backend.process import PROCESS

__all__ = [
    "generator_of",
    "get_rng_state",
    "get_rng_state_all",
    "initial_seed",
    "manual_seed",
    "manual_seed_all",
    "seed",
    "seed_all",
    "set_rng_state",
    "set_rng_state_all",
]


def generator_of(device: Any = None) -> torch.Generator:
    """A device's default generator."""
    index = index_of(device)
    generator: torch.Generator = loaded().default_generator(index)
    return generator


def manual_seed(seed: int) -> None:
    """Seed the current device's generator."""
    generator_of().manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seed every device's generator. Before the device is loaded, the seed waits for it."""
    if PROCESS.ready:
        for index in range(device_count()):
            generator_of(index).manual_seed(int(seed))
    else:
        PROCESS.seed = int(seed)


def seed() -> None:
    """Seed the current device's generator with a number of chance."""
    generator_of().seed()


def seed_all() -> None:
    """Seed every device's generator with one number of chance."""
    manual_seed_all(torch.Generator().seed())


def initial_seed() -> int:
    """What the current device's generator was seeded with."""
    return generator_of().initial_seed()


def get_rng_state(device: Any = "simacc") -> torch.Tensor:
    """The state of a device's generator, on the host."""
    return generator_of(device).get_state()


def set_rng_state(new_state: torch.Tensor, device: Any = "simacc") -> None:
    """Put a generator back into a state."""
    generator_of(device).set_state(new_state)


def get_rng_state_all() -> list[torch.Tensor]:
    """The state of every device's generator."""
    return [get_rng_state(index) for index in range(device_count())]


def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
    """Put the generators back into their states, the first device first."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)
