"""Every change to PyTorch's own classes, in one place: what is replaced, why, and how it is put back.

A patch is a function that gets what stood there and gives what stands there now; its docstring is the reason.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
from torch._library.utils import RegistrationHandle
from torch.autograd.profiler_util import EventList
from torch.multiprocessing.reductions import reduce_storage, reduce_tensor
from torch.nn.attention.flex_attention import flex_attention
from torch.overrides import has_torch_function_unary
from torch.utils.dlpack import DLDeviceType

from simdevice.torch_backend import scopes
from simdevice.torch_backend.placement import touches_simacc
from simdevice.torch_backend.process import PROCESS

__all__ = ["AT_IMPORT", "PATCHES", "Patch", "install", "undo"]


@dataclass(frozen=True, slots=True)
class Patch:
    """`place` holds, under `key`, what `replacement` makes out of what was there; a dictionary or a class's attributes.

    1. `apply` replaces. 2. `undo` puts back what was there, unless somebody else has replaced it in the meantime:
    theirs calls ours, so both stay.
    """

    place: Any
    key: Any
    replacement: Callable[[Any], Any]

    def apply(self) -> tuple[Any, Any]:
        """What was there before (_NOTHING: nothing), and what is now."""
        before = self._read()
        after = self.replacement(before)
        self._write(after)
        return before, after

    def undo(self, before: Any, after: Any) -> None:
        if self._read() is after:
            self._write(before)

    def _read(self) -> Any:
        if isinstance(self.place, dict):
            return self.place.get(self.key, _NOTHING)
        return self.place.__dict__[self.key]

    def _write(self, value: Any) -> None:
        if not isinstance(self.place, dict):
            setattr(self.place, self.key, value)
        elif value is _NOTHING:
            del self.place[self.key]
        else:
            self.place[self.key] = value


_NOTHING = object()
_applied: list[tuple[Patch, Any, Any]] = []


def install(which: tuple[Patch, ...] | None = None) -> None:
    """Apply these patches, or all, but for those that stand already."""
    standing = [patch for patch, _, _ in _applied]
    for patch in PATCHES if which is None else which:
        if patch not in standing:
            _applied.append((patch, *patch.apply()))


def undo() -> None:
    """Put back what `install` replaced, last first."""
    while _applied:
        patch, before, after = _applied.pop()
        patch.undo(before, after)


def _marks_weights(moved: Callable[..., Any]) -> Callable[..., Any]:
    """`module.to(device)` replaces `parameter.data` in place, and PyTorch has no hook for that: parameters that it
    brings to simacc would not count as weights."""

    @functools.wraps(moved)
    def _apply(self: Any, fn: Any, *args: Any, **kwargs: Any) -> Any:
        out = moved(self, fn, *args, **kwargs)
        PROCESS.native.mark_weights([p for p in self._parameters.values() if p is not None])
        return out

    return _apply


def _tells_backward_threads(set_number: Callable[[int], None]) -> Callable[[int], None]:
    """PyTorch sets the number of threads for the caller and for threads that start later. A backward pass on simacc has
    a thread of its own, which would keep its number and sum in another order than the CPU, whose pass runs in the
    caller's."""

    @functools.wraps(set_number)
    def set_num_threads(*args: Any, **kwargs: Any) -> None:
        set_number(*args, **kwargs)
        PROCESS.native.threads_set()

    return set_num_threads


def _compiles_for_simacc(compiled: Callable[..., Any]) -> Callable[..., Any]:
    """`torch.compile` without a backend means Inductor, which can't generate code for simacc: what touches the device
    goes to the simacc backend instead."""

    @functools.wraps(compiled)
    def __call__(self: Any, model_: Any, inputs_: Any, **patches: Any) -> Any:
        if touches_simacc(model_, inputs_):
            # Late: it brings Dynamo and AOTAutograd, which only programs that compile load.
            from simdevice.torch_backend import compile_backend

            return compile_backend.simacc(model_, inputs_)
        return compiled(self, model_, inputs_, **patches)

    return __call__


def _hides_hooks(init: Callable[..., None]) -> Callable[..., None]:
    """Dynamo may be loaded while a recording's module hooks are installed already, and would break its graphs at them:
    they are hidden when the first program asks for a compilation, and Dynamo is told of the device."""

    @functools.wraps(init)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        from simdevice.torch_backend import dynamo  # late: it brings Dynamo, which only programs that compile load

        scopes.hide_from_dynamo()
        dynamo.register()
        init(self, *args, **kwargs)

    return __init__


def _allows_flex_attention(validate: Callable[..., None]) -> Callable[..., None]:
    """PyTorch has flex_attention on a closed list of device types. On simacc it is the CPU's: no gradients."""

    @functools.wraps(validate)
    def _validate_device(query: Any, key: Any, value: Any) -> None:
        if query.device.type != "simacc":
            validate(query, key, value)
        elif query.requires_grad or key.requires_grad or value.requires_grad:
            raise NotImplementedError(
                "flex_attention on simacc is the CPU's kernel, which has no backward: give it tensors that need no "
                "gradient, or use scaled_dot_product_attention"
            )

    return _validate_device


def _sends_by_value(reduce: Any) -> Callable[[Any], Any]:
    """Tensors go to other processes by value, through storages of the CPU: PyTorch's own way shares memory, which the
    other process's device would not know, and hangs where it fails. A storage goes whole and once per message, so that
    views keep their strides, and tensors that share memory share it there."""

    def by_value(tensor: Any) -> Any:
        if tensor.device.type != "simacc":
            return (reduce_tensor if reduce is _NOTHING else reduce)(tensor)
        if tensor.requires_grad and not tensor.is_leaf:
            raise RuntimeError("a tensor that autograd follows can't go to another process: send tensor.detach()")
        if tensor.is_nested or tensor.layout is not torch.strided:
            return _received_whole, (tensor.detach().cpu(), tensor.device.index, tensor.requires_grad)
        layout = (tensor.storage_offset(), tuple(tensor.shape), tensor.stride(), tensor.is_conj(), tensor.is_neg())
        parts = (type(tensor), tensor.untyped_storage(), tensor.dtype, layout, tensor.requires_grad)
        return _received, parts

    return by_value


def _sends_bytes(reduce: Any) -> Callable[[Any], Any]:
    """A storage on simacc goes to another process as its bytes: PyTorch's own way shares memory, as for tensors."""

    def by_value(storage: Any) -> Any:
        if storage.device.type != "simacc":
            return (reduce_storage if reduce is _NOTHING else reduce)(storage)
        return _received_bytes, (_bytes(storage).cpu(), storage.device.index)

    return by_value


def _bytes(storage: torch.UntypedStorage) -> torch.Tensor:
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)


def _received_bytes(on_host: torch.Tensor, index: int) -> torch.UntypedStorage:
    return on_host.to(torch.device("simacc", index)).untyped_storage()


def _received_whole(on_host: torch.Tensor, index: int, requires_grad: bool) -> torch.Tensor:
    return on_host.to(torch.device("simacc", index)).requires_grad_(requires_grad)


def _received(
    kind: type, storage: torch.UntypedStorage, dtype: torch.dtype, layout: tuple[Any, ...], requires_grad: bool
) -> torch.Tensor:
    offset, shape, strides, conjugate, negative = layout
    tensor = torch.empty(0, dtype=dtype, device=storage.device).set_(storage, offset, shape, strides)
    if conjugate:
        tensor = torch._conj(tensor)
    if negative:
        tensor = torch._neg_view(tensor)
    if kind is torch.nn.Parameter:
        return torch.nn.Parameter(tensor, requires_grad)
    return tensor.requires_grad_(requires_grad)


def _asks_for_kernels(init: Callable[..., None]) -> Callable[..., None]:
    """Without `use_kineto`, `torch.autograd.profiler.profile(use_device="simacc")` times operators by a pair of events
    around each, which would be operators of the program themselves; PyTorch prints a back trace per operator where a
    device has none. The newer way tells the same, to the nanosecond, and leaves the program alone."""

    @functools.wraps(init)
    def __init__(self: Any, enabled: bool = True, *, use_device: Any = None, **options: Any) -> None:
        if use_device == "simacc":
            options["use_kineto"] = True
        init(self, enabled, use_device=use_device, **options)

    return __init__


def _knows_the_device(method: Callable[..., Any]) -> Callable[..., Any]:
    """`sort_by="self_cuda_time_total"` works in PyTorch, and so does "privateuse1" in the place of "cuda", but not the
    name that this device has taken, under which its columns are printed."""

    @functools.wraps(method)
    def by_name(self: Any, *args: Any, **kwargs: Any) -> Any:
        return method(self, *map(_generic, args), **{key: _generic(value) for key, value in kwargs.items()})

    return by_name


def _generic(argument: Any) -> Any:
    is_metric = isinstance(argument, str) and re.fullmatch(r"(self_)?simacc_(time|time_total|memory_usage)", argument)
    return argument.replace("simacc", "privateuse1") if is_metric else argument


def _keeps_kernels(remove: Callable[..., Any]) -> Callable[..., Any]:
    """An operator that calls one of its own name and nothing else is one row of a profiler's table. PyTorch then takes
    the inner one's kernels, and loses the outer's; here it is the outer one that launches, and the host's kernel is
    inside."""

    @functools.wraps(remove)
    def _remove_dup_nodes(self: Any) -> Any:
        if self._use_device == "simacc":
            for event in self:  # in order of time: outer before inner
                outer = event.cpu_parent
                if outer is not None and outer.name == event.name and len(outer.cpu_children) == 1:
                    event.kernels = outer.kernels + event.kernels
        return remove(self)

    return _remove_dup_nodes


def _names_the_device(device_of: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """DLPack has a number for devices that it does not list, and PyTorch gives it to a device called "privateuse1": it
    raises "Unknown device type" for one that has taken a name."""

    @functools.wraps(device_of)
    def __dlpack_device__(self: Any) -> Any:
        if self.device.type == "simacc" and not has_torch_function_unary(self):
            return DLDeviceType.kDLExtDev, self.device.index
        return device_of(self)

    return __dlpack_device__


def _opens_to_the_host(export: Callable[..., Any]) -> Callable[..., Any]:
    """PyTorch copies whatever is exported to another device, and device memory is the host's here: an export to the CPU
    shares it, unless a copy is asked for."""

    @functools.wraps(export)
    def __dlpack__(
        self: Any, *, stream: Any = -1, dl_device: Any = None, copy: bool | None = None, **version: Any
    ) -> Any:
        if not (_is_ours(self) and dl_device is not None and dl_device[0] == DLDeviceType.kDLCPU) or copy:
            return export(self, stream=stream, dl_device=dl_device, copy=copy, **version)
        export(self, stream=stream)  # raises where a tensor cannot be exported, or for a stream that is none
        return export(PROCESS.native.host_window(self), copy=copy, **version)

    return __dlpack__


def _shares_its_own(consume: Callable[..., Any]) -> Callable[..., Any]:
    """`torch.from_dlpack` does not ask a tensor's owner for another device, but copies: the CPU's view of a simacc
    tensor would be a copy, and copy=False an error. A capsule's memory is borrowed, in no statistics and without a
    number in traces, so a simacc tensor of a simacc tensor is made without one. And PyTorch takes "simacc" without an
    index for a device that no tensor is on."""

    @functools.wraps(consume)
    def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Any:
        to = torch.device(device) if isinstance(device, (str, torch.device)) else None
        if to is not None and to.type == "simacc" and to.index is None:
            device = to = torch.device("simacc", torch.get_device_module("simacc").current_device())
        if copy or not _is_ours(ext_tensor) or (to is None and device is not None):
            return consume(ext_tensor, device=device, copy=copy)
        if to is not None and to.type == "cpu":
            return consume(ext_tensor.__dlpack__(max_version=(1, 0), dl_device=(DLDeviceType.kDLCPU, 0), copy=copy))
        if to is not None and to != ext_tensor.device:
            return consume(ext_tensor, device=device, copy=copy)
        ext_tensor.__dlpack__(copy=copy)  # raises where a tensor cannot be exported
        return ext_tensor.data

    return from_dlpack


def _is_ours(tensor: Any) -> bool:
    """Whether it is a tensor with memory on simacc; a subclass may have none."""
    return type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.device.type == "simacc"


def _keeps_rows(impl: Callable[..., None]) -> Callable[..., None]:
    """A kernel that somebody registers for simacc takes the place of the device's own, which records: the operator
    would leave the record. It gets a kernel over it that records the call, for as long as the library lives."""

    @functools.wraps(impl)
    def registered(self: Any, op_name: Any, fn: Any, dispatch_key: str = "", **options: Any) -> None:
        impl(self, op_name, fn, dispatch_key, **options)
        if (dispatch_key or self.dispatch_key) == "PrivateUse1" and self.ns != "_":
            name = f"{self.ns}::{self._resolve_op_name(op_name, 'impl').split('::')[-1]}"
            if PROCESS.native.record_user_kernel(name):
                self._registration_handles.append(RegistrationHandle(partial(PROCESS.native.forget_user_kernel, name)))

    return registered


def _looks_for_kernels(load: Callable[..., None]) -> Callable[..., None]:
    """A library in C++ registers its kernels without telling anyone: they get their recording kernels once it is
    there."""

    @functools.wraps(load)
    def load_library(self: Any, path: Any) -> None:
        load(self, path)
        PROCESS.native.record_user_kernels()

    return load_library


_flex: Any = sys.modules[flex_attention.__module__]
_inductor: Any = torch._TorchCompileInductorWrapper
_reducers: dict[type, Any] = ForkingPickler._extra_reducers  # type: ignore[attr-defined]  # where register() writes

AT_IMPORT = (
    Patch(torch.autograd.profiler.profile, "__init__", _asks_for_kernels),
    Patch(EventList, "table", _knows_the_device),
    Patch(EventList, "export_stacks", _knows_the_device),
    Patch(EventList, "_remove_dup_nodes", _keeps_kernels),
    Patch(torch, "from_dlpack", _shares_its_own),
    Patch(torch.utils.dlpack, "from_dlpack", _shares_its_own),
)
"""What a program may call before it uses the device: applied with `import torch`."""

PATCHES = (
    *AT_IMPORT,
    Patch(torch.nn.Module, "_apply", _marks_weights),
    Patch(torch.Tensor, "__dlpack_device__", _names_the_device),
    Patch(torch.Tensor, "__dlpack__", _opens_to_the_host),
    Patch(torch, "set_num_threads", _tells_backward_threads),
    Patch(_inductor, "__call__", _compiles_for_simacc),
    Patch(_inductor, "__init__", _hides_hooks),
    Patch(torch._TorchCompileWrapper, "__init__", _hides_hooks),
    Patch(torch.library.Library, "impl", _keeps_rows),
    Patch(type(torch.ops), "load_library", _looks_for_kernels),
    Patch(_flex, "_validate_device", _allows_flex_attention),
    Patch(_reducers, torch.Tensor, _sends_by_value),
    Patch(_reducers, torch.nn.Parameter, _sends_by_value),
    Patch(_reducers, torch.UntypedStorage, _sends_bytes),
)
