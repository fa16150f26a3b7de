"""PyTorch's databases of operators, modules and optimizers as cases: each runs its samples on the CPU and on simacc.

A sample passes where simacc gives what the CPU gives: bits, dtype, shape, strides, sharing of memory, and what the
call left in its arguments.
"""

from __future__ import annotations

import copy
import functools
import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd import forward_ad
from torch.testing._internal import common_methods_invocations as operators
from torch.testing._internal.common_modules import module_db
from torch.testing._internal.common_optimizers import optim_db
from torch.utils._pytree import tree_flatten, tree_map

from .compare import difference, sharing
from .twins import Twins

# Samples per operator and dtype, at most.
SAMPLES = {"forward": 8, "in place": 2, "out": 2, "gradients": 3, "forward mode": 2, "module": 6, "optimizer": 100}
# Their results are memory as it was.
UNINITIALISED = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}
# Their arguments behind the first stay on the host: PyTorch wants them there on every device.
HOST_ARGUMENTS = {"tensor_split"}
UNSTEADY = "the CPU differs from itself"
ASKED_AGAIN = 12  # times that the CPU is asked whether it does
STEPS = 3


@dataclass(frozen=True, slots=True)
class Case:
    """All samples of one kind for one operator (or module, or optimizer) and dtype; `index` is its place in PyTorch's
    database."""

    kind: str
    name: str
    dtype: str
    index: int

    def __str__(self) -> str:
        return f"{self.kind}: {self.name} {self.dtype}"


class Refused(Exception):
    """The CPU does not pass this sample either."""


@functools.cache
def databases() -> list[Any]:
    every = [*operators.op_db]
    for name in ("unary", "binary", "pointwise", "reduce", "other"):
        every += getattr(operators, f"foreach_{name}_op_db")
    return [op for op in every if not op.name.startswith("jiterator")]  # compiled for CUDA at run time


@functools.cache
def cases() -> list[Case]:
    out = []
    for i, op in enumerate(databases()):
        name = f"{op.name}.{op.variant_test_name}".rstrip(".")
        differentiable = op.supported_backward_dtypes("cpu") if op.supports_autograd else set()
        for dtype in sorted(op.supported_dtypes("cpu"), key=str):
            kinds = ["forward"]
            kinds += ["in place"] if op.get_inplace() is not None else []
            kinds += ["out"] if op.supports_out and not op.name.startswith("_foreach") else []
            kinds += ["gradients"] if dtype in differentiable else []
            kinds += ["forward mode"] if dtype in differentiable and op.supports_forward_ad else []
            out += [Case(kind, name, str(dtype).removeprefix("torch."), i) for kind in kinds]
    for i, info in enumerate(module_db):
        out += [Case("module", info.name, str(d).removeprefix("torch."), i) for d in sorted(info.dtypes, key=str)]
    for i, info in enumerate(optim_db):
        out += [Case("optimizer", info.optim_cls.__name__, d, i) for d in ("float32", "float64")]
    return out


def samples(case: Case, most: int | None = None) -> Iterator[Callable[[], str | None]]:
    """The case's samples as functions that say how simacc differs, None where it does not.

    Raises (the functions):
        Refused: the CPU does not pass.
        Exception: simacc raised where the CPU does not.
    """
    random.seed(0)
    torch.manual_seed(0)
    dtype = getattr(torch, case.dtype)
    every: Iterator[Callable[[], str | None]]
    if case.kind == "module":
        every = _modules(module_db[case.index], dtype)
    elif case.kind == "optimizer":
        every = _optimizers(optim_db[case.index], dtype)
    else:
        op = databases()[case.index]
        compared = {
            "forward": _forward, "in place": _in_place, "out": _out,
            "gradients": _gradients, "forward mode": _forward_mode,
        }[case.kind]  # fmt: skip
        drawn = op.sample_inputs("cpu", dtype, requires_grad=case.kind == "gradients")
        every = (functools.partial(compared, op, sample) for sample in drawn)
    return itertools.islice(every, SAMPLES[case.kind] if most is None else most)


def _on_both(run: Callable[[Twins], tuple[Any, Any]], *, contents: bool = True) -> str | None:
    """Compares what `run` gives on the CPU and on simacc: (results, arguments)."""
    expected = _outcome(run, "cpu")
    unlike = _unlike(expected, _outcome(run, "simacc"), contents)
    if unlike is None:
        return None
    for attempt in range(ASKED_AGAIN):
        _leave_in_memory(attempt % 3 - 1)
        if _unlike(expected, _outcome(run, "cpu"), contents) is not None:
            return f"{UNSTEADY}: {unlike}"
    return unlike


def _leave_in_memory(value: int) -> None:
    """What kernels that read memory before they write it will read."""
    held = [torch.full((n,), value, dtype=torch.int32) for n in (*range(1, 20), *range(20, 400, 12)) for _ in range(8)]
    random.Random(value).shuffle(held)
    held.clear()


def _outcome(run: Callable[[Twins], tuple[Any, Any]], device: str) -> tuple[Any, Any, Any]:
    """(results, arguments, who shares memory)."""
    torch.manual_seed(1)
    random.seed(1)
    try:
        results, arguments = run(Twins(device))
    except Refused:
        raise
    except Exception as error:
        if device == "cpu":
            raise Refused(str(error)) from error
        raise
    return results, arguments, sharing(results, arguments)


def _unlike(expected: tuple[Any, Any, Any], actual: tuple[Any, Any, Any], contents: bool) -> str | None:
    (a, after_a, shares_a), (b, after_b, shares_b) = expected, actual
    unlike = difference(a, b, contents=contents) or difference(after_a, after_b, contents=contents)
    return f"memory {shares_a} against {shares_b}" if unlike is None and shares_a != shares_b else unlike


def _arguments(op: Any, twins: Twins, sample: Any) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    if op.name in HOST_ARGUMENTS:
        return twins.of(sample.input), sample.args, sample.kwargs
    return twins.of((sample.input, sample.args, sample.kwargs))  # type: ignore[no-any-return]


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [t for t in tree_flatten(tree)[0] if isinstance(t, torch.Tensor)]


def _forward(op: Any, sample: Any) -> str | None:
    def run(twins: Twins) -> tuple[Any, Any]:
        first, args, kwargs = _arguments(op, twins, sample)
        return op(first, *args, **kwargs), _tensors((first, args, kwargs))

    return _on_both(run, contents=op.name not in UNINITIALISED)


def _in_place(op: Any, sample: Any) -> str | None:
    if sample.broadcasts_input:
        raise Refused("the result does not fit the argument")

    def run(twins: Twins) -> tuple[Any, Any]:
        first, args, kwargs = _arguments(op, twins, sample)
        return op.get_inplace()(first, *args, **kwargs), _tensors((first, args, kwargs))

    return _on_both(run)


def _out(op: Any, sample: Any) -> str | None:
    """Into results of the right size, whose strides are theirs, and into one of no elements, which grows."""

    def run(twins: Twins) -> tuple[Any, Any]:
        first, args, kwargs = _arguments(op, twins, sample)
        shaped = op(first, *args, **kwargs)
        if not _tensors(shaped):
            raise Refused("no tensors to write")
        right = tree_map(lambda t: torch.ones_like(t), shaped)
        none = tree_map(lambda t: torch.empty(0, dtype=t.dtype, device=t.device), shaped)
        results = [op(first, *args, **kwargs, out=out) for out in (right, none)]
        return results, _tensors((first, args, kwargs, right, none))

    return _on_both(run, contents=op.name not in UNINITIALISED)


def _gradients(op: Any, sample: Any) -> str | None:
    def run(twins: Twins) -> tuple[Any, Any]:
        first, args, kwargs = _arguments(op, twins, sample)
        leaves = [t for t in _tensors((first, args, kwargs)) if t.requires_grad]
        results = sample.output_process_fn_grad(op(first, *args, **kwargs))
        return (results, _backward(results, leaves)), []

    return _on_both(run)


def _backward(results: Any, leaves: list[torch.Tensor]) -> list[torch.Tensor | None]:
    """Gradients of the results, each with respect to a ramp of cotangents."""
    outputs = [t for t in _tensors(results) if t.requires_grad and t.layout == torch.strided]
    if not outputs or not leaves:
        raise Refused("nothing to differentiate")
    ramps = [(torch.arange(t.numel()) % 7 - 3).to(t.dtype).view(t.shape).to(t.device) for t in outputs]
    return list(torch.autograd.grad(outputs, leaves, ramps, allow_unused=True))


def _forward_mode(op: Any, sample: Any) -> str | None:
    def run(twins: Twins) -> tuple[Any, Any]:
        tree = _arguments(op, twins, sample)

        def dual(leaf: Any) -> Any:
            if isinstance(leaf, torch.Tensor) and (leaf.is_floating_point() or leaf.is_complex()):
                ramp = (torch.arange(leaf.numel()) % 5 - 2).to(leaf.dtype).view(leaf.shape).to(leaf.device)
                return forward_ad.make_dual(leaf, ramp)
            return leaf

        with forward_ad.dual_level():
            first, args, kwargs = tree_map(dual, tree)
            results = _tensors(op(first, *args, **kwargs))
            return [tuple(forward_ad.unpack_dual(t)) for t in results], []

    return _on_both(run)


def _modules(info: Any, dtype: torch.dtype) -> Iterator[Callable[[], str | None]]:
    for training in (True, False):
        drawn = info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=True, training=training)
        for sample in itertools.islice(drawn, SAMPLES["module"] // 2):
            yield functools.partial(_module, info, sample, dtype, training)


def _module(info: Any, sample: Any, dtype: torch.dtype, training: bool) -> str | None:
    """Results, and in training the gradients of parameters and arguments, and buffers."""
    construct, forward = sample.constructor_input, sample.forward_input
    keywords = {} if info.is_lazy else {"dtype": dtype}
    try:
        original = info.module_cls(*construct.args, **construct.kwargs).to(**keywords).train(training)
    except Exception as error:
        raise Refused(str(error)) from error
    if forward is None:
        raise Refused("a module that is not called")

    def run(twins: Twins) -> tuple[Any, Any]:
        module = copy.deepcopy(original).to(twins.device)
        args, kwargs = twins.of((forward.args, forward.kwargs))
        results = module(*args, **kwargs)
        leaves = [t for t in (*module.parameters(), *_tensors((args, kwargs))) if t.requires_grad]
        differentiable = [t for t in _tensors(results) if t.requires_grad]
        gradients = _backward(results, leaves) if differentiable and leaves else []
        return (_tensors(results), gradients, list(module.buffers())), []

    return _on_both(run)


def _optimizers(info: Any, dtype: torch.dtype) -> Iterator[Callable[[], str | None]]:
    flags = [{}, *({flag: True} for flag in info.supported_impls if flag != "differentiable")]
    if info.supported_impls and "foreach" in info.supported_impls:
        flags.append({"foreach": False})
    for drawn in info.optim_inputs_func("cpu"):
        for flag in flags:
            yield functools.partial(_optimizer, info, {**drawn.kwargs, **flag}, dtype)


def _optimizer(info: Any, keywords: dict[str, Any], dtype: torch.dtype) -> str | None:
    """Parameters and the optimizer's state after a few steps."""

    def run(twins: Twins) -> tuple[Any, Any]:
        module = torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.Tanh(), torch.nn.Linear(4, 3)).to(dtype)
        inputs = torch.randn(6, 5, dtype=dtype)
        module.to(twins.device)
        inputs = inputs.to(twins.device)
        only_sparse = info.only_supports_sparse_grads
        parameters = list(module.parameters())
        optimizer = info.optim_cls(parameters, **twins.of(keywords))

        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss = module(inputs).square().mean()
            loss.backward()
            if only_sparse:
                for p in parameters:
                    p.grad = p.grad.to_sparse()
            return loss

        for _ in range(STEPS):
            optimizer.step(closure)
        state = [optimizer.state[p] for p in parameters]
        return (parameters, [_tensors(s) for s in state]), []

    return _on_both(run)
