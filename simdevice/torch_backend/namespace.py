"""`torch.simacc`: what PyTorch expects of a device module, and the simulator's own entry points."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from simdevice.torch_backend import presence
from simdevice.torch_backend.cuda_names import NOT_THERE
from simdevice.torch_backend.generators import (
    generator_of,
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from simdevice.torch_backend.memory import (
    device_memory_used,
    empty_cache,
    get_per_process_memory_fraction,
    max_memory_allocated,
    max_memory_cached,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_cached,
    memory_reserved,
    memory_stats,
    memory_stats_as_nested_dict,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_max_memory_allocated,
    reset_max_memory_cached,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
)
from simdevice.torch_backend.places import (
    can_device_access_peer,
    current_device,
    device,
    device_count,
    device_of,
    get_device_capability,
    get_device_name,
    get_device_properties,
    index_of,
    loaded,
    set_device,
    synchronize,
)
from simdevice.torch_backend.presence import refuse_frameworks
from simdevice.torch_backend.process import PROCESS, check_devices

if TYPE_CHECKING:
    from simdevice.torch_backend.compiled_graphs import CompiledGraph
    from simdevice.torch_backend.operator_totals import OperatorTotal
    from simdevice.torch_backend.recording import Recording

__all__ = [
    "Event",
    "Stream",
    "can_device_access_peer",
    "compiled_graphs",
    "configure",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "device_memory_used",
    "device_of",
    "empty_cache",
    "get_allocator_backend",
    "get_amp_supported_dtype",
    "get_arch_list",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_per_process_memory_fraction",
    "get_rng_state",
    "get_rng_state_all",
    "init",
    "initial_seed",
    "ipc_collect",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_initialized",
    "is_tf32_supported",
    "manual_seed",
    "manual_seed_all",
    "mark_weights",
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
    "operator_totals",
    "record",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_per_process_memory_fraction",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "stream",
    "synchronize",
    "time_s",
]


def _lazy_init() -> None:
    """PyTorch calls this before the first tensor on the device."""
    refuse_frameworks()
    loaded()


# The functions below import late: the simulator is loaded when the device is first used, so that `import torch` stays
# as quick as it was.


def configure(
    device: Any = None,
    *,
    devices: int | None = None,
    engine: Any = None,
    numerics: None = None,
    operator_totals: bool = False,
    **overrides: object,
) -> None:
    """Choose the simulated machine: a preset name, a YAML file or a Device; spec fields by keyword.

    Time starts again at zero; tensors stay. Without a name: SIMACC_DEVICE, else "h100". `devices` equal machines behind
    one host are simacc:0, simacc:1, ...; without it, as many as there are (SIMACC_DEVICES at first, else 1).
    With `operator_totals`, torch.simacc.operator_totals() has sums per operator of all that runs from here on.

    Raises:
        UnknownNameError, SpecError: no such machine, or one that cannot be; nothing has changed then.
    """
    from simdevice.torch_backend import machine

    chosen = machine.choose(device, engine=engine, numerics=numerics, **overrides)
    count = None if devices is None else check_devices(devices)
    loaded()
    machine.use(chosen, count, operator_totals=operator_totals)


def record(*, scopes: bool = True) -> Recording:
    """`with torch.simacc.record() as rec:` gives the block's `rec.trace` and `rec.run`."""
    from simdevice.torch_backend.recording import Recording

    return Recording(scopes=scopes)


def operator_totals() -> tuple[OperatorTotal, ...]:
    """Calls, simulated seconds, FLOPs and bytes of every operator since configure(operator_totals=True)."""
    loaded()
    from simdevice.torch_backend import machine

    return machine.operator_totals()


def compiled_graphs() -> tuple[CompiledGraph, ...]:
    """What `torch.compile(backend="simacc")` made of the program: of every graph its operators, time and break."""
    from simdevice.torch_backend import compile_backend

    return compile_backend.compiled_graphs()


def mark_weights(module: torch.nn.Module) -> None:
    """Count a module's parameters as weights. Only needed with scopes off, for a module that was
    neither built on the device nor moved there (a deep copy, say): its first call marks it otherwise."""
    loaded()
    from simdevice.torch_backend import scopes

    scopes.mark_weights(module)


def time_s() -> float:
    """Simulated seconds since the device was configured."""
    loaded()
    from simdevice.torch_backend import machine

    return machine.totals()["time_s"]


# --- device


def is_available() -> bool:
    """Whether the device can be used (its native half is there or can be compiled). PyTorch, which asks on behalf of
    programs that never named simacc, is told once the program has named it."""
    return presence.announced()


def is_initialized() -> bool:
    """Whether a simacc tensor can exist already."""
    return PROCESS.ready


def init() -> None:
    """Load the device, which otherwise happens when it is first used."""
    loaded()


def ipc_collect() -> None:
    """Nothing of another process is held: tensors are sent by value."""


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Every type that the CPU computes with is there."""
    return True


def is_tf32_supported() -> bool:
    """float32 is computed as float32."""
    return False


def is_current_stream_capturing() -> bool:
    """There are no graphs to capture."""
    return False


def get_arch_list() -> list[str]:
    """Kernels are the CPU's: for no architecture of another kind."""
    return []


def get_allocator_backend() -> str:
    """The device's own."""
    return "native"


# --- streams and events


class _OfSimacc(type):
    """`isinstance(x, torch.simacc.Event)` holds for any torch.Event of the device."""

    made: type

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.made) and instance.device.type == "simacc"  # type: ignore[attr-defined]


class Stream(metaclass=_OfSimacc):
    """A stream of the device: it orders work, and never overlaps another stream's.

    What is made is a plain torch.Stream, since PyTorch's methods take no subclass as an argument.
    """

    made = torch.Stream

    def __new__(cls, device: Any = None, priority: int = 0, **ids: int) -> torch.Stream:  # type: ignore[misc]
        if ids:
            return torch.Stream(**ids)
        return torch.Stream(torch.device("simacc", index_of(device)), priority=priority)


class Event(metaclass=_OfSimacc):
    """A position in the queue; `elapsed_time` gives simulated milliseconds between two. A plain torch.Event."""

    made = torch.Event

    def __new__(cls, enable_timing: bool = False, blocking: bool = False) -> torch.Event:  # type: ignore[misc]
        return torch.Event(torch.device("simacc", current_device()), enable_timing=enable_timing, blocking=blocking)


def current_stream(device: Any = None) -> torch.Stream:
    """The stream that this thread submits to."""
    return torch.accelerator.current_stream(torch.device("simacc", index_of(device)))


def default_stream(device: Any = None) -> torch.Stream:
    """The stream that is current at first."""
    return Stream(
        stream_id=0, device_index=index_of(device), device_type=torch._C._autograd.DeviceType.PrivateUse1.value
    )


def set_stream(stream: torch.Stream) -> None:
    """Make a stream, and its device, this thread's own."""
    torch.accelerator.set_stream(stream)


def stream(stream: torch.Stream) -> torch.Stream:
    """Context manager that makes a stream current: a torch.Stream is one itself."""
    return stream


def __getattr__(name: str) -> Any:
    if name == "default_generators":
        return tuple(generator_of(index) for index in range(device_count()))
    if name == "_initialized":  # torch.utils.checkpoint asks, and restores the generator only if it is true
        return is_initialized()
    if name in NOT_THERE:
        raise AttributeError(f"torch.simacc has no {name}: {NOT_THERE[name]}")
    raise AttributeError(f"module 'torch.simacc' has no attribute {name!r}")


def _is_in_bad_fork() -> bool:
    return False  # device memory is host memory; a forked process has its own copy


def get_amp_supported_dtype() -> list[torch.dtype]:
    """What torch.autocast can lower to."""
    return [torch.float16, torch.bfloat16]
