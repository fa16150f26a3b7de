"""What the cost tests share: run torch code and see what its operators cost, or write a signature by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from simdevice.costs import Costs
from simdevice.frontends.dispatch import DispatchRecorder
from simdevice.records import Cost, Op, Origin, Signature, TensorSpec


@pytest.fixture
def ops() -> Callable[..., list[Op]]:
    """Call a function and give the operators it ran, views left out; its arguments are made before."""

    def run(program: Callable[..., Any], *args: Any, **kwargs: Any) -> list[Op]:
        with DispatchRecorder(Costs(), scopes=False) as recorder:
            program(*args, **kwargs)
        return list(recorder.finish(Origin("test")).without_views().ops)

    return run


@pytest.fixture
def op(ops: Callable[..., list[Op]]) -> Callable[..., Op]:
    """The same for a function that runs one operator."""

    def run(program: Callable[..., Any], *args: Any, **kwargs: Any) -> Op:
        (only,) = ops(program, *args, **kwargs)
        return only

    return run


@pytest.fixture
def cost() -> Callable[..., Cost]:
    """Cost an operator by shapes: `cost("aten.mm", [(2, 3), (3, 4)], [(2, 4)], groups=1)`, all of one dtype."""

    def of(name: str, inputs: list[Any], outputs: list[Any], dtype: str = "float32", **attributes: Any) -> Cost:
        return Costs()(
            Signature(
                name,
                tuple(_spec(t, dtype) for t in inputs),
                tuple(_spec(t, dtype) for t in outputs),
                tuple(attributes.items()),
            )
        )

    return of


def _spec(tensor: Any, dtype: str) -> TensorSpec:
    return tensor if isinstance(tensor, TensorSpec) else TensorSpec(tuple(tensor), dtype)


@pytest.fixture(autouse=True)
def same_numbers() -> None:
    torch.manual_seed(0)
