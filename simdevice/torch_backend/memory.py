"""Device memory as CUDA's functions say it. A part of `torch.simacc`."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import torch

from simdevice.torch_backend.places import index_of, loaded
from simdevice.torch_backend.process import PROCESS

__all__ = [
    "device_memory_used",
    "empty_cache",
    "get_per_process_memory_fraction",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_memory_stats",
    "set_per_process_memory_fraction",
]


def memory_stats_as_nested_dict(device: Any = None) -> dict[str, Any]:
    """Statistics under CUDA's names. Storages are counted once, and nothing is cached: what is reserved is what is
    allocated. There are no pools and no segments: these are zero."""
    loaded()
    stats: dict[str, Any] = torch._C._accelerator_getDeviceStats(index_of(device))
    stats.setdefault("num_oom_rejections", 0)
    return stats


def memory_stats(device: Any = None) -> dict[str, int]:
    """The same, flat: "allocated_bytes.all.peak" and so on."""
    return dict(sorted(_flat("", memory_stats_as_nested_dict(device))))


def _flat(prefix: str, stats: dict[str, Any]) -> Iterator[tuple[str, int]]:
    for key, value in stats.items():
        if isinstance(value, dict):
            yield from _flat(f"{prefix}{key}.", value)
        else:
            yield f"{prefix}{key}", value


def _use(device: Any) -> dict[str, int]:
    index = index_of(device)
    return dict(loaded().memory(index))


def memory_allocated(device: Any = None) -> int:
    """Bytes of all live storages."""
    return _use(device)["live_bytes"]


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes that were live at once since the last reset."""
    return _use(device)["peak_bytes"]


def memory_reserved(device: Any = None) -> int:
    """Nothing is cached: what is allocated."""
    return memory_allocated(device)


def max_memory_reserved(device: Any = None) -> int:
    """Nothing is cached: the most that was allocated."""
    return max_memory_allocated(device)


def device_memory_used(device: Any = None) -> int:
    """Bytes in use on the simulated device."""
    return memory_allocated(device)


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Free and total bytes of the simulated device."""
    use = _use(device)
    return use["capacity_bytes"] - use["live_bytes"], use["capacity_bytes"]


def reset_peak_memory_stats(device: Any = None) -> None:
    """Let peaks begin at what is live now."""
    index = index_of(device)
    loaded().reset_peak_memory(index)


def reset_accumulated_memory_stats(device: Any = None) -> None:
    """Let totals of allocations begin at what is live now."""
    index = index_of(device)
    loaded().reset_accumulated_memory(index)


def _older(name: str, newer: str) -> None:
    warnings.warn(f"torch.simacc.{name} is deprecated: use torch.simacc.{newer}", FutureWarning, stacklevel=3)


def memory_cached(device: Any = None) -> int:
    """CUDA's older name of `memory_reserved`."""
    _older("memory_cached", "memory_reserved")
    return memory_reserved(device)


def max_memory_cached(device: Any = None) -> int:
    """CUDA's older name of `max_memory_reserved`."""
    _older("max_memory_cached", "max_memory_reserved")
    return max_memory_reserved(device)


def reset_max_memory_allocated(device: Any = None) -> None:
    """CUDA's older name of `reset_peak_memory_stats`."""
    _older("reset_max_memory_allocated", "reset_peak_memory_stats")
    reset_peak_memory_stats(device)


def reset_max_memory_cached(device: Any = None) -> None:
    """CUDA's older name of `reset_peak_memory_stats`."""
    _older("reset_max_memory_cached", "reset_peak_memory_stats")
    reset_peak_memory_stats(device)


def set_per_process_memory_fraction(fraction: float, device: Any = None) -> None:
    """Let a process have only a part of the machine's memory, until configure().

    Raises:
        TypeError, ValueError: it is no fraction.
    """
    if not isinstance(fraction, float):
        raise TypeError(f"expected a fraction of memory as a float, got {type(fraction).__name__}")
    if not 0 <= fraction <= 1:
        raise ValueError(f"expected a fraction of memory from 0 to 1, got {fraction}")
    index, native, machine = index_of(device), loaded(), PROCESS.device
    native.set_capacity(index, int(machine.memory_capacity_bytes * fraction), machine.name)


def get_per_process_memory_fraction(device: Any = None) -> float:
    """The part of the machine's memory that this process may have."""
    return _use(device)["capacity_bytes"] / PROCESS.device.memory_capacity_bytes


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """The statistics as a table for people: now, at the peak, allocated and freed in all."""
    from simdevice.units import format_bytes  # late: `import torch` loads nothing of the simulator

    stats, index = memory_stats(device), index_of(device)
    rows = [("allocated memory", "allocated_bytes", format_bytes), ("allocations", "allocation", "{:,}".format)]
    lines = [f"simacc:{index} {PROCESS.device.name}: {format_bytes(_use(device)['capacity_bytes'])}, nothing is cached"]
    kinds = ("current", "peak") if abbreviated else ("current", "peak", "allocated", "freed")
    lines.append(f"{'':<18}" + "".join(f"{kind:>14}" for kind in kinds))
    for label, key, shown in rows:
        lines.append(f"{label:<18}" + "".join(f"{shown(stats[f'{key}.all.{kind}']):>14}" for kind in kinds))
    return "\n".join([*lines, f"out of memory: {stats['num_ooms']:,} times"])


def empty_cache() -> None:
    """Nothing is cached."""
