"""What `torch.cuda` has and `torch.simacc` has not, each with its reason: for error messages, and for the page
docs/torch_cuda.md, which `python -m simdevice.torch_backend.cuda_names` prints."""

from __future__ import annotations

import inspect
from types import ModuleType

__all__ = ["NOT_THERE", "public_functions", "table"]

_DRIVER = "it reads a real GPU's sensors; a run's report has utilisation"
_GRAPHS = "there are no graphs to capture: issuing an operator is free unless the machine says otherwise"
_ALLOCATOR = "device memory is host memory, freed in program order: there is no caching allocator to steer"
_HOST = "pinned memory is the host's own, and is not counted"
_LIBRARY = "there is no CUDA library behind the device"

NOT_THERE = {
    "CUDAGraph": _GRAPHS,
    "CUDAPluggableAllocator": _ALLOCATOR,
    "ExternalStream": "no other library has streams of this device",
    "GreenContext": "a device is not divided: configure a smaller one",
    "MemPool": _ALLOCATOR,
    "StreamContext": "a torch.Stream is its own context manager",
    "caching_allocator_alloc": _ALLOCATOR,
    "caching_allocator_delete": _ALLOCATOR,
    "caching_allocator_disabled": _ALLOCATOR,
    "caching_allocator_enable": _ALLOCATOR,
    "change_current_allocator": _ALLOCATOR,
    "check_error": _LIBRARY,
    "clock_rate": _DRIVER,
    "cudart": _LIBRARY,
    "current_blas_handle": _LIBRARY,
    "current_solver_handle": _LIBRARY,
    "get_gencode_flags": _LIBRARY,
    "get_stream_from_external": "no other library has streams of this device",
    "get_sync_debug_mode": "a recording has a row for every synchronisation",
    "graph": _GRAPHS,
    "graph_pool_handle": _GRAPHS,
    "host_memory_stats": _HOST,
    "host_memory_stats_as_nested_dict": _HOST,
    "list_gpu_processes": _DRIVER,
    "make_graphed_callables": _GRAPHS,
    "memory_snapshot": "storages stand alone: there are no segments; liveness of a trace says what is alive when",
    "memory_usage": _DRIVER,
    "power_draw": _DRIVER,
    "reset_accumulated_host_memory_stats": _HOST,
    "reset_peak_host_memory_stats": _HOST,
    "set_sync_debug_mode": "a recording has a row for every synchronisation",
    "temperature": _DRIVER,
    "use_mem_pool": _ALLOCATOR,
    "utilization": _DRIVER,
}
"""Functions of torch.cuda that mean nothing here. Whoever asks for one gets an AttributeError with the reason."""


def public_functions(module: ModuleType) -> list[str]:
    """The functions that a device module offers, and its classes but for those that name a type of element."""
    return sorted(
        name
        for name in set(dir(module)) & set(module.__all__)
        if inspect.isroutine(getattr(module, name))
        or (inspect.isclass(getattr(module, name)) and not name.endswith(("Storage", "Tensor", "Error", "Status")))
    )


def table() -> str:
    """The page: every public function of torch.cuda, and whether it is here."""
    import torch

    lines = [
        "# torch.cuda's functions on simacc",
        "",
        "Made by `python -m simdevice.torch_backend.cuda_names` from `dir(torch.cuda)`. What is not there raises",
        "AttributeError with the reason that stands here.",
        "",
        "| function | torch.simacc |",
        "| --- | --- |",
    ]
    for name in public_functions(torch.cuda):
        said = NOT_THERE.get(name)
        if said is None:
            document = inspect.getdoc(getattr(torch.simacc, name)) or ""  # type: ignore[attr-defined]
            said = " ".join(document.split("\n\n")[0].split())
        else:
            said = f"not there: {said}"
        lines.append(f"| `{name}` | {said} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(table(), end="")
