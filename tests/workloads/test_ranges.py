"""Traces of one program at many sizes equal those of each size alone; a program that decides by its size is noticed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
import torch
from torch import nn

import simdevice as sd
from simdevice.frontends import Workload
from simdevice.frontends.symbolic import same_way
from simdevice.records import Trace
from simdevice.records.family import Box, Family
from simdevice.workloads import models
from simdevice.workloads.ranges import Point, traces

Ask = Callable[[Point], Workload]


def compared(ask: Ask, points: Sequence[Point], **options: object) -> int:
    """Checks every trace of a range against the one alone; how often the program was traced for the range."""
    asked: list[Workload] = []

    def trace_of(workload: Workload) -> Trace:
        asked.append(workload)
        return sd.trace(workload)

    for point, member in zip(points, traces(ask, points, trace_of, **options), strict=True):
        alone = sd.trace(ask(point))
        assert member.says_the_same(alone), point
        assert replace(member.origin, capture_s=0.0) == replace(alone.origin, capture_s=0.0)
    return len(asked)


def prefill(name: str, **fields: int) -> Ask:
    model = models.build(name, **fields)
    return lambda point: models.prefill(model, *point[:1], batch=point[1] if len(point) > 1 else 1)


LENGTHS = [(128 + 13 * i,) for i in range(64)]


def test_sixty_four_lengths_cost_three_traces():
    # Two ends and the middle.
    assert compared(prefill("llama3-8b", num_hidden_layers=2), LENGTHS) == 3


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gpt2", "llama3-8b", "qwen2.5-0.5b", "mistral-7b"])
def test_sixty_four_lengths_of_a_published_model(name):
    lengths = [(64 + 15 * i,) for i in range(64)]  # to 1,009: GPT-2 has 1,024 positions
    assert compared(prefill(name), lengths) == 3


def test_two_axes_and_a_size_of_one():
    # Four corners and the middle; 8 points have a batch of 1, where PyTorch's symbols end.
    points = [(16 * (i + 1), batch) for i in range(8) for batch in (1, 2, 3, 5, 8, 13)]
    assert compared(prefill("gpt2", n_layer=1), points, few=4) == 4 + 1 + 8


def test_decode_steps():
    model = models.build("qwen2.5-0.5b", num_hidden_layers=2)
    contexts = [(100 + i,) for i in range(48)]
    assert compared(lambda point: models.decode_step(model, *point), contexts) == 3


class Decides(nn.Module):
    """Takes another way from 300 columns on, and pads to a multiple of 8 below."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[1] >= 300:
            return x.relu() @ x.t()
        if x.shape[1] % 8:
            x = nn.functional.pad(x, (0, 8 - x.shape[1] % 8))
        return x @ x.t()


def columns(program: nn.Module) -> Ask:
    return lambda point: Workload(program, (torch.zeros(4, *point, device="meta"),))


def test_a_program_that_decides_by_its_size_is_traced_where_it_decides_otherwise():
    points = [(256 + i,) for i in range(48)]  # 256, 264, ... are alike; 257 is not, and 300 is not
    assert compared(columns(Decides()), points) == 48


class Halves(nn.Module):
    """A size that is rounded down is no polynomial: between two even lengths it is another number."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[:, ::2].relu()


class Window(nn.Module):
    """A smaller size without a decision: the last 64 columns at most."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.narrow(1, 0, torch.sym_min(x.shape[1], 64)).relu()


class Squares(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.new_empty(x.shape[1] * x.shape[1]).relu()


@pytest.mark.parametrize("program", [Halves(), Window(), Squares()], ids=lambda p: type(p).__name__)
def test_sizes_that_are_no_sums_and_products_are_traced_one_by_one(program):
    assert compared(columns(program), [(32 + i,) for i in range(48)]) == 48


def test_what_cannot_be_asked_with_symbols_is_traced_one_by_one():
    class Reads(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.relu() if float(x.sum()) == 0 else x

    real: Ask = lambda point: Workload(module, (torch.zeros(4, *point),))  # noqa: E731
    module = Reads()
    assert same_way(real((8,)), real((9,))) is None
    assert compared(real, [(8 + i,) for i in range(4)], few=1) == 4


def test_a_familys_numbers_are_exact():
    # x is (4, t): 8 t floats go in and out of relu, t is each row's length.
    ask = columns(nn.ReLU())
    family = Family.of(Box((10,), (20,)), lambda point: sd.trace(ask(point)))
    assert family is not None
    member = family.at((13,))
    assert member is not None
    assert member.ops[0].signature.inputs[0].shape == (4, 13)
    assert member.bytes == 2 * 4 * 13 * 4


def test_traces_that_differ_by_more_than_numbers_are_no_family():
    ask = columns(Decides())
    assert Family.of(Box((296,), (304,)), lambda point: sd.trace(ask(point))) is None
    pads = Family.of(Box((256,), (300,)), lambda point: sd.trace(ask(point)))
    assert pads is None
