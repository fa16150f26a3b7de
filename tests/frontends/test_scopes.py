"""Module paths of backward nodes, where only the sequence number tells."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from simdevice.frontends.scopes import ModuleScopes


class Asks(nn.Module):
    """Asks something in the middle of its forward."""

    def __init__(self, ask: Callable[[torch.Tensor], None]) -> None:
        super().__init__()
        self._ask = ask

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        self._ask(y)
        return y


def asked(ask: Callable[[torch.Tensor, Callable[[Any], str]], str]) -> str:
    """What `ask` is told inside layer "1" of two: it gets a tensor made there, and the path of a node."""
    paths: list[str] = []
    answers: list[str] = []

    def number(path: str) -> int:
        paths.append(path)
        return len(paths) - 1

    layers = nn.Sequential(nn.Linear(2, 2), Asks(lambda y: answers.append(ask(y, path_of))))
    scopes = ModuleScopes(number, layers)

    def path_of(node: Any) -> str:
        return paths[scopes.of_node(node)]

    with scopes:
        layers(torch.ones(1, 2))
    (answer,) = answers
    return answer


def test_a_node_has_the_path_of_the_module_that_made_it() -> None:
    assert asked(lambda y, path_of: path_of(y.grad_fn)) == "1"
    assert asked(lambda y, path_of: path_of(y.grad_fn.next_functions[0][0])) == "0"  # type: ignore[union-attr]


def test_gradient_accumulation_is_outside_every_module_whoever_is_running() -> None:
    weight = nn.Parameter(torch.ones(2))
    # the node that adds to the gradient has no sequence number of its own: as a number it is later than all
    assert asked(lambda y, path_of: path_of(weight.view_as(weight).grad_fn.next_functions[0][0])) == ""  # type: ignore[union-attr]


def test_a_node_made_before_the_recording_is_outside() -> None:
    before = (nn.Parameter(torch.ones(2)) * 2).grad_fn
    assert asked(lambda y, path_of: path_of(before)) == ""
