"""Does a program take the same way at every size? Run once with symbols for sizes, PyTorch notes what it decided.

Its notes are guards: expressions over the symbols, true for the sizes that the program was run with. Where they are
true for other sizes too, every `if` of the program, of its library and of PyTorch's operators goes the same way there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from simdevice.frontends.base import Workload
from simdevice.frontends.fake import fake_cpu

__all__ = ["SameWay", "same_way"]


class SameWay:
    """What a program decided by the sizes of its inputs."""

    def __init__(self, env: ShapeEnv, placeholders: list[Any]) -> None:
        self._env = env
        self._guards = env.produce_guards_expression(placeholders, ignore_static=False)

    def holds(self, workload: Workload) -> bool:
        """Whether the program would decide the same for this workload's inputs."""
        inputs = [leaf for leaf in _leaves(workload)[0] if isinstance(leaf, torch.Tensor)]
        return self._guards is None or bool(self._env.evaluate_guards_expression(self._guards, inputs))


def same_way(low: Workload, high: Workload, *, fake: str | None = None) -> SameWay | None:
    """Run the program of `low` once, without data, with a symbol for each size in which the inputs of `high` differ.

    None where it can't be said: the program needs numbers, the inputs differ by more than sizes, or a shape doesn't
    follow from the sizes by addition and multiplication alone, no size being multiplied with itself (a half, rounded
    down, would be another number between two sizes than the two say).
    """
    leaves, tree = _leaves(low)
    others, other_tree = _leaves(high)
    if tree != other_tree or low.program is not high.program:
        return None
    env = ShapeEnv()
    mode = FakeTensorMode(shape_env=env, allow_non_fake_inputs=True)
    symbolic = [_symbolic(mode, pair, fake) for pair in zip(leaves, others, strict=True)]
    if any(leaf is _DIFFERS for leaf in symbolic):
        return None
    with contextlib.ExitStack() as stack:
        if fake is not None:
            stack.enter_context(fake_cpu(low.program, mode))
        args, kwargs = tree_unflatten(symbolic, tree)
        asked = replace(low, args=args, kwargs=kwargs)
        sizes = stack.enter_context(_Sizes(mode))
        try:
            with torch.no_grad():
                if asked.warm_up is not None:
                    args, kwargs = asked.warm_up(asked)
                asked.program(*args, **kwargs)
        except Exception:  # then each size is traced for itself, which says what is wrong, if anything is
            return None
    if not all(_is_multilinear(size) for size in sizes.seen):
        return None
    return SameWay(env, [leaf for leaf in symbolic if isinstance(leaf, torch.Tensor)])


_DIFFERS = object()


def _leaves(workload: Workload) -> tuple[list[Any], Any]:
    return tree_flatten((workload.args, dict(workload.kwargs)))


def _symbolic(mode: FakeTensorMode, pair: tuple[Any, Any], fake: str | None) -> Any:
    """An input with a symbol for each size in which the two differ; `_DIFFERS` where they differ by more."""
    low, high = pair
    if not isinstance(low, torch.Tensor):
        return low if type(low) is type(high) and low == high else _DIFFERS
    if not isinstance(high, torch.Tensor) or (low.dtype, low.dim()) != (high.dtype, high.dim()):
        return _DIFFERS
    same = [a == b for a, b in zip(low.shape, high.shape, strict=True)]
    kinds = [DimDynamic.STATIC if is_same else DimDynamic.DYNAMIC for is_same in same]
    example = torch.empty_strided(low.shape, low.stride(), dtype=low.dtype, device=fake or low.device)
    return mode.from_tensor(example, symbolic_context=StatelessSymbolicContext(dynamic_sizes=kinds))


class _Sizes(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's __init_subclass__
    """Which expressions stand for sizes and whole numbers in a program's calls and results."""

    def __init__(self, below: FakeTensorMode) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen: set[sympy.Expr] = set()
        self._below = below

    def __enter__(self) -> Any:
        self._below.__enter__()
        return super().__enter__()  # type: ignore[no-untyped-call]

    def __exit__(self, *exception: Any) -> None:
        super().__exit__(*exception)  # type: ignore[no-untyped-call]
        self._below.__exit__(*exception)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        self.seen.update(_expressions((args, kwargs, out)))
        return out


def _expressions(values: Any) -> Iterator[sympy.Expr]:
    for leaf in tree_leaves(values):
        for number in leaf.shape if isinstance(leaf, torch.Tensor) else (leaf,):
            if isinstance(number, torch.SymInt):
                yield number.node.expr


def _is_multilinear(size: sympy.Expr) -> bool:
    symbols = sorted(size.free_symbols, key=str)
    if not symbols:
        return True
    if not size.is_polynomial(*symbols):
        return False
    return all(degree <= 1 for degree in sympy.Poly(size, *symbols).degree_list())
