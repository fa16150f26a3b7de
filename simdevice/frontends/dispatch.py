"""Trace a program by watching PyTorch's dispatcher: meta, fake, real and simacc tensors alike."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch._C._dynamo.eval_frame import _FrameAction, _FrameExecStrategy, set_code_exec_strategy
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    UnsupportedOperatorException,
)
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass_type
from torch.utils._pytree import tree_map
from torch.utils.flop_counter import FlopCounterMode

from simdevice.costs import Costs
from simdevice.errors import CaptureError, UnknownNameError
from simdevice.frontends.base import Workload
from simdevice.frontends.describe import cache_path, data_notes, device_of, one_line, title, with_path
from simdevice.frontends.fake import fake_cpu
from simdevice.frontends.memo import MetaMemo
from simdevice.frontends.schema import CallPlan, plain, plan_call, spec_of
from simdevice.frontends.scopes import ModuleScopes
from simdevice.frontends.storages import StorageIds, padded_shape
from simdevice.frontends.versions import versions
from simdevice.records import PHASES, OpTable, Origin, Signature, TensorSpec, Trace, TraceBuilder

__all__ = ["DispatchRecorder", "trace"]

_Tensor = torch.Tensor
_FORWARD, _BACKWARD, _OPTIMIZER = (PHASES.index(p) for p in ("forward", "backward", "optimizer"))


class DispatchRecorder(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's __init_subclass__
    """Turns each operator call of this thread into a row.

    Lifecycle: 1. construct, with the module whose parameters are weights and whose paths are scopes;
    2. enter once, run the program, leave; 3. `finish`.

    A call whose shapes, types and declared attributes were seen before costs one dictionary look-up:
    the key is built from what the tensors say, and only a new key makes a Signature.
    """

    supports_higher_order_operators = True

    def __init__(self, costs: Costs, root: torch.nn.Module | None = None, *, scopes: bool = True) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._costs = costs
        self._builder = TraceBuilder(OpTable(costs))
        self._storages = StorageIds()
        self._root = root
        self._scopes = ModuleScopes(self._builder.scope, root) if scopes else None
        self._plans: dict[Any, CallPlan] = {}
        self._indices: dict[tuple[Any, ...], int] = {}
        self._memo: MetaMemo | None = None
        self._optimizing = False
        self._hooks: list[Any] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No wrapper of PyTorch's around each call (3 us); see the end of this file."""
        return False

    def __enter__(self) -> DispatchRecorder:
        self._thread = threading.get_ident()  # optimizer hooks are called for every thread's optimizers
        if self._root is not None:
            self._storages.weights(self._root.parameters())
        if self._scopes is not None:
            self._scopes.__enter__()
        self._hooks = [
            register_optimizer_step_pre_hook(self._optimizer_begins),
            register_optimizer_step_post_hook(self._optimizer_ends),
        ]
        if torch._C._len_torch_dispatch_stack() == 0:  # a mode below would want to see every call
            self._memo = MetaMemo()
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, kind: Any, error: Any, tb: Any) -> None:
        super().__exit__(kind, error, tb)  # type: ignore[no-untyped-call]
        for hook in self._hooks:
            hook.remove()
        self._storages.close()
        if self._scopes is not None:
            self._scopes.__exit__(kind, error, tb)

    @property
    def table(self) -> OpTable:
        """Signatures and costs so far."""
        return self._builder.table

    def finish(self, origin: Origin) -> Trace:
        """The trace."""
        return self._builder.finish(origin)

    def _optimizer_begins(self, *unused: Any) -> None:
        if threading.get_ident() == self._thread:
            self._optimizing = True

    def _optimizer_ends(self, *unused: Any) -> None:
        if threading.get_ident() == self._thread:
            self._optimizing = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if types and any(t is not FakeTensor and is_traceable_wrapper_subclass_type(t) for t in types):
            return NotImplemented  # the subclass unwraps itself; its inner operators come back here
        kwargs = kwargs or {}
        plan = self._plans.get(func) or self._plan(func)
        if plan.route:
            return self._detour(plan.route, func, args, kwargs)
        key: list[Any] = [func]
        tensors: list[int] = []
        count = len(args)
        for position, name in plan.reads:  # before the call: it may change a tensor's shape or storage
            value = args[position] if position < count else kwargs.get(name)
            if isinstance(value, _Tensor):
                self._note(value, key, tensors)
            elif value is not None:
                self._note_all(value, key, tensors)
        inputs = len(tensors)
        key.append(inputs)
        for position, name, default in plan.attributes:
            value = args[position] if position < count else kwargs.get(name, default)
            key.append(plain(value))
        if plan.is_pure and self._memo is not None:
            out = self._memo.call(func, args, kwargs)
        else:
            out = func(*args, **kwargs)
        if isinstance(out, _Tensor):
            self._note(out, key, tensors)
        elif out is not None:
            self._note_all(out, key, tensors)
        for position, name in plan.mutates:
            self._note_all(args[position] if position < count else kwargs.get(name), key, tensors)
        question = tuple(key)
        index = self._indices.get(question)
        if index is None:
            index = self._indices[question] = self._builder.table.intern(_signature(plan, question, inputs))
        self._builder.add(index, tensors, **self._where())
        return out

    def _plan(self, func: Any) -> CallPlan:
        plan = self._plans[func] = plan_call(func, self._costs)
        return plan

    def _detour(self, route: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What is not one operator: a question, a composition, or control flow over functions."""
        if route == "composite":  # inference mode doesn't take them apart by itself, no_grad does
            with self._again():
                return func.decompose(*args, **kwargs)
        if route == "control":
            args, kwargs = tree_map(lambda v: self._recorded(v) if callable(v) else v, (args, kwargs))
        return func(*args, **kwargs)

    @contextlib.contextmanager
    def _again(self) -> Iterator[None]:
        """On top of the modes once more, from within a call."""
        super().__enter__()  # type: ignore[no-untyped-call]
        try:
            yield
        finally:
            super().__exit__(None, None, None)  # type: ignore[no-untyped-call]

    def _recorded(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            with self._again():
                return function(*args, **kwargs)

        return call

    def _note(self, tensor: torch.Tensor, key: list[Any], tensors: list[int]) -> None:
        """Append a tensor's shape, type and weight flag to the key and its serial to `tensors`."""
        serial, is_weight = self._storages.of(tensor)
        key += (padded_shape(tensor) if tensor.is_nested else tensor.shape, tensor.dtype, is_weight)
        tensors.append(serial)

    def _note_all(self, value: Any, key: list[Any], tensors: list[int]) -> None:
        """The same for every tensor in nested lists; what is no tensor doesn't count."""
        if isinstance(value, _Tensor):
            self._note(value, key, tensors)
        elif isinstance(value, (list, tuple)):
            for item in value:
                self._note_all(item, key, tensors)

    def _where(self) -> dict[str, int]:
        """The phase and the scope of the call that is running."""
        scopes = self._scopes
        node = torch._C._current_autograd_node()
        if scopes is None:
            phase = _BACKWARD if node is not None else _OPTIMIZER if self._optimizing else _FORWARD
            return {"phase": phase}
        if node is not None:
            return {"phase": _BACKWARD, "scope": scopes.current if scopes.inside else scopes.of_node(node)}
        optimizing = self._optimizing and not scopes.inside  # a closure's forward is forward
        return {"phase": _OPTIMIZER if optimizing else _FORWARD, "scope": scopes.current}


def _signature(plan: CallPlan, key: tuple[Any, ...], inputs: int) -> Signature:
    """A key as a Signature: (function, 3 per input, how many inputs, attributes, 3 per output)."""
    values = key[2 + 3 * inputs :]
    attributes = len(plan.attributes)
    return Signature(
        plan.name,
        _specs(key[1 : 1 + 3 * inputs]),
        _specs(values[attributes:]),
        tuple((name, value) for (_, name, _), value in zip(plan.attributes, values, strict=False)),
    )


def _specs(flat: tuple[Any, ...]) -> tuple[TensorSpec, ...]:
    return tuple(spec_of(*flat[i : i + 3]) for i in range(0, len(flat), 3))


def trace(
    workload: Workload, costs: Costs, *, fake: str | None = None, scopes: bool = True, flop_counter: bool = False
) -> Trace:
    """Run the workload once and give its operators. A module runs without gradients; a function as it is.

    Raises:
        UnknownNameError: `fake` is neither None nor "cpu".
        CaptureError: the program needs numbers that meta or fake tensors don't have.
    """
    if fake not in (None, "cpu"):
        raise UnknownNameError("kind of fake tensors", str(fake), ["cpu"])
    program = workload.program
    root = program if isinstance(program, torch.nn.Module) else None
    with contextlib.ExitStack() as stack:
        if fake is not None:
            twins = stack.enter_context(fake_cpu(program))
            workload = replace(workload, args=twins.tree(workload.args), kwargs=twins.tree(dict(workload.kwargs)))
        if root is not None:
            stack.enter_context(torch.no_grad())
        args, kwargs = workload.args, workload.kwargs
        device = device_of(root, args, kwargs)
        if workload.warm_up is not None:
            with _without_data(fake, device):
                args, kwargs = workload.warm_up(workload)
        started = time.perf_counter()
        counter = stack.enter_context(FlopCounterMode(display=False)) if flop_counter else None
        with _without_data(fake, device), DispatchRecorder(costs, root, scopes=scopes) as recorder:
            program(*args, **kwargs)
    origin = Origin(
        frontend="dispatch",
        device=f"{device} (no data)" if fake else device,
        workload=title(workload),
        versions=versions(),
        flop_counter=counter.get_total_flops() if counter is not None else None,
    )
    recorded = with_path(recorder.finish(origin), cache_path(workload))
    took = time.perf_counter() - started
    return replace(recorded, origin=replace(recorded.origin, capture_s=took, notes=data_notes(recorded)))


@contextlib.contextmanager
def _without_data(fake: str | None, device: str) -> Iterator[None]:
    """Turn what PyTorch says when a tensor has no data into what to do about it."""
    try:
        yield
    except (DataDependentOutputException, DynamicOutputShapeException) as error:
        raise CaptureError(f"{error.func} needs numbers, and fake tensors have none: trace real ones") from error
    except AssertionError as error:
        if fake is None or "FakeTensor" not in str(error):
            raise
        raise CaptureError(
            "the program uses real tensors that are not among its inputs, which fake ones don't mix with: "
            "give them (or the module) as inputs, or leave attention out"
        ) from error
    except (RuntimeError, NotImplementedError, UnsupportedOperatorException) as error:
        if (fake is not None or device == "meta") and "nested" in str(error).lower():
            raise CaptureError(
                "strided nested tensors can't be without data: trace real tensors, or turn them off "
                "(nn.TransformerEncoder takes enable_nested_tensor=False)"
            ) from error
        if fake is not None or device != "meta":
            raise
        raise CaptureError(
            f"this program can't run on the meta device ({one_line(error)}): try attention='fused'"
        ) from error


# Dynamo must neither compile the recorder nor what it calls. PyTorch's own way is a wrapper that
# imports Dynamo and costs 3 us per operator; this flag on the code object costs nothing.
set_code_exec_strategy(
    DispatchRecorder.__torch_dispatch__.__code__, _FrameExecStrategy(_FrameAction.SKIP, _FrameAction.SKIP)
)
