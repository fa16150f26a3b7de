"""`torch.simacc`: what PyTorch expects of a device module, and the simulator's own entry points."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from simdevice.torch_backend import presence
from simdevice.torch_backend.process import PROCESS

if TYPE_CHECKING:
    from simdevice.torch_backend.recording import Recording

__all__ = [
    "Event",
    "Recording",
    "Stream",
    "configure",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "empty_cache",
    "get_amp_supported_dtype",
    "get_device_name",
    "get_rng_state",
    "initial_seed",
    "is_available",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "mark_weights",
    "max_memory_allocated",
    "mem_get_info",
    "memory_allocated",
    "memory_stats",
    "record",
    "reset_peak_memory_stats",
    "seed",
    "set_device",
    "set_rng_state",
    "set_stream",
    "stream",
    "synchronize",
    "time_s",
]


def _lazy_init() -> None:
    """PyTorch calls this before the first tensor on the device."""
    _native()


# The functions below import late: the simulator is loaded when the device is first used, so that `import torch` stays
# as quick as it was.


def _native() -> Any:
    """The native half, everything else being there too."""
    from simdevice.torch_backend import bootstrap

    return bootstrap.native()


def configure(device: Any = None, *, engine: Any = None, numerics: None = None, **overrides: object) -> None:
    """Choose the simulated machine: a preset name, a YAML file or a Device; spec fields by keyword.

    Time starts again at zero; tensors stay. Without a name: SIMACC_DEVICE, else "h100".

    Raises:
        UnknownNameError, SpecError: no such machine, or one that cannot be; nothing has changed then.
    """
    from simdevice.torch_backend import machine

    chosen = machine.choose(device, engine=engine, numerics=numerics, **overrides)
    _native()
    machine.use(chosen)


def record(*, scopes: bool = True) -> Recording:
    """`with torch.simacc.record() as rec:` gives the block's `rec.trace` and `rec.run`."""
    from simdevice.torch_backend.recording import Recording

    return Recording(scopes=scopes)


def mark_weights(module: torch.nn.Module) -> None:
    """Count a module's parameters as weights. Only needed with scopes off, for a module that was
    neither built on the device nor moved there (a deep copy, say): its first call marks it otherwise."""
    _native()
    from simdevice.torch_backend import scopes

    scopes.mark_weights(module)


def time_s() -> float:
    """Simulated seconds since the device was configured."""
    _native()
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


def device_count() -> int:
    return 1 if PROCESS.native is None else int(PROCESS.native.device_count())


def current_device() -> int:
    """This thread's device; before the device is loaded, the first."""
    return 0 if PROCESS.native is None else int(PROCESS.native.current_device())


def set_device(device: Any) -> None:
    _native().exchange_device(_index(device))


def get_device_name(device: Any = None) -> str:
    """The simulated machine's name."""
    _index(device)
    _native()
    return str(PROCESS.device.name)


class device:
    """Context manager that selects a device, as torch.cuda.device does."""

    def __init__(self, device: Any) -> None:
        self.idx = _index(device)

    def __enter__(self) -> None:
        self._before = _native().exchange_device(self.idx)

    def __exit__(self, *exception: object) -> None:
        _native().exchange_device(self._before)


def _index(device: Any) -> int:
    """A device index from None, an int, "simacc", "simacc:0" or a torch.device."""
    if device is None:
        return current_device()
    if not isinstance(device, int):
        device = torch.device(device)
        if device.type != "simacc":
            raise ValueError(f"expected a simacc device, got {str(device)!r}")
        device = current_device() if device.index is None else device.index
    if not 0 <= device < device_count():
        raise RuntimeError(f"expected a simacc device index below {device_count()}, got {device}")
    return int(device)


def synchronize(device: Any = None) -> None:
    """Wait for everything submitted: operators submitted later start after it."""
    torch.accelerator.synchronize(torch.device("simacc", _index(device)))


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
        return torch.Stream(torch.device("simacc", _index(device)), priority=priority)


class Event(metaclass=_OfSimacc):
    """A position in the queue; `elapsed_time` gives simulated milliseconds between two. A plain torch.Event."""

    made = torch.Event

    def __new__(cls, enable_timing: bool = False, blocking: bool = False) -> torch.Event:  # type: ignore[misc]
        return torch.Event(torch.device("simacc", current_device()), enable_timing=enable_timing, blocking=blocking)


def current_stream(device: Any = None) -> torch.Stream:
    return torch.accelerator.current_stream(torch.device("simacc", _index(device)))


def default_stream(device: Any = None) -> torch.Stream:
    return Stream(stream_id=0, device_index=_index(device), device_type=torch._C._autograd.DeviceType.PrivateUse1.value)


def set_stream(stream: torch.Stream) -> None:
    torch.accelerator.set_stream(stream)


def stream(stream: torch.Stream) -> torch.Stream:
    """Context manager that makes a stream current: a torch.Stream is one itself."""
    return stream


# --- memory


def memory_stats(device: Any = None) -> dict[str, int]:
    """Bytes live and at peak, and counts; storages are counted once, host scratch is not."""
    return dict(_native().memory(_index(device)))


def memory_allocated(device: Any = None) -> int:
    return memory_stats(device)["live_bytes"]


def max_memory_allocated(device: Any = None) -> int:
    return memory_stats(device)["peak_bytes"]


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Free and total bytes of the simulated device."""
    stats = memory_stats(device)
    return stats["capacity_bytes"] - stats["live_bytes"], stats["capacity_bytes"]


def reset_peak_memory_stats(device: Any = None) -> None:
    _native().reset_peak_memory(_index(device))


def empty_cache() -> None:
    """Nothing is cached."""


# --- random numbers


def _generator(device: Any = None) -> torch.Generator:
    generator: torch.Generator = _native().default_generator(_index(device))
    return generator


def __getattr__(name: str) -> Any:
    if name == "default_generators":
        return tuple(_generator(index) for index in range(device_count()))
    if name == "_initialized":  # torch.utils.checkpoint asks, and restores the generator only if it is true
        return is_initialized()
    raise AttributeError(f"module 'torch.simacc' has no attribute {name!r}")


def _is_in_bad_fork() -> bool:
    return False  # device memory is host memory; a forked process has its own copy


def manual_seed(seed: int) -> None:
    _generator().manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seed the device's generator. Before the device is loaded, the seed waits for it."""
    if is_initialized():
        for index in range(device_count()):
            _generator(index).manual_seed(int(seed))
    else:
        PROCESS.seed = int(seed)


def seed() -> None:
    _generator().seed()


def initial_seed() -> int:
    return _generator().initial_seed()


def get_rng_state(device: Any = "simacc") -> torch.Tensor:
    return _generator(device).get_state()


def set_rng_state(new_state: torch.Tensor, device: Any = "simacc") -> None:
    _generator(device).set_state(new_state)


def get_amp_supported_dtype() -> list[torch.dtype]:
    return [torch.float16, torch.bfloat16]
