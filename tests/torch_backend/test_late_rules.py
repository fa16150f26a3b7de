"""Cost rules that come after the device: what they read is asked for, so that live and dispatched calls agree."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch

import simdevice as sd
from simdevice.costs import Rule, register, registry, streamed
from simdevice.records import Cost, Op, Signature


@torch.library.custom_op("late_rules::powers", mutates_args=(), device_types="cpu")
def powers(x: torch.Tensor, times: int) -> torch.Tensor:
    return x**times


@torch.library.custom_op("late_rules::weighted", mutates_args=(), device_types="cpu")
def weighted(x: torch.Tensor, weights: Sequence[float]) -> torch.Tensor:
    return x * sum(weights)


@torch.library.custom_op("late_rules::doubled", mutates_args=(), device_types="cpu")
def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def per_time(signature: Signature) -> Cost:
    return streamed(signature, "elementwise", signature.outputs[0].numel * int(signature.attribute("times", 0)))


def per_weight(signature: Signature) -> Cost:
    return streamed(signature, "elementwise", signature.outputs[0].numel * len(signature.attribute("weights", ())))


def per_element(signature: Signature) -> Cost:
    return streamed(signature, "elementwise", signature.outputs[0].numel)


@pytest.fixture(autouse=True)
def registry_as_it_was():
    before = dict(registry._RULES)
    yield
    registry._RULES.clear()
    registry._RULES.update(before)


@pytest.fixture
def x() -> torch.Tensor:
    return torch.ones(8, device="simacc")


def live(function: Callable[..., object], *args: object) -> list[Op]:
    with torch.simacc.record() as rec:
        function(*args)
    return [op for op in rec.trace.ops if not op.name.startswith("simacc.")]


def test_attributes_of_a_rule_that_comes_after_the_device_are_kept(x):
    register("late_rules.powers", attributes=("times",))(per_time)
    (op,) = live(powers, x, 5)
    assert op.flops == 8 * 5
    assert op.flops == sd.trace(lambda t: powers(t, 5), torch.ones(8)).flops


def test_a_list_of_numbers_is_an_attribute(x):
    register("late_rules.weighted", attributes=("weights",))(per_weight)
    (op,) = live(weighted, x, [0.5, 1.5, 2.0])
    assert op.signature.attribute("weights", None) == (0.5, 1.5, 2.0)
    assert op.flops == 8 * 3
    assert [o.flops for o in live(lambda t: (weighted(t, [1.0]), weighted(t, [2.0, 3.0])), x)] == [8 * 1, 8 * 2]


def test_a_rule_that_comes_after_the_operator_has_run_counts_from_the_next_recording_on(x):
    assert [op.flops for op in live(powers, x, 5)] == [None]
    register("late_rules.powers", attributes=("times",))(per_time)
    assert [op.flops for op in live(powers, x, 5)] == [8 * 5]
    assert [op.flops for op in live(doubled, x)] == [None]
    register("late_rules.doubled")(per_element)  # reads no attributes: the call looks as it did before
    assert [op.flops for op in live(doubled, x)] == [8]


def test_a_rule_that_goes_is_forgotten(x):
    register("late_rules.doubled")(per_element)
    assert [op.flops for op in live(doubled, x)] == [8]
    del registry._RULES["late_rules.doubled"]
    assert [op.flops for op in live(doubled, x)] == [None]


def test_calls_that_came_before_their_rule_are_unknown_and_say_why(x):
    live(powers, torch.ones(3, device="simacc"), 2)  # met without a rule, in another shape
    with torch.simacc.record() as rec:
        powers(x, 5)
        register("late_rules.powers", attributes=("times",))(per_time)
        powers(x, 5)
    assert rec.trace.unknown() == {
        "late_rules.powers": "its cost rule was registered after the call, whose attributes were not kept"
    }
    assert [op.cost.bytes for op in rec.trace.ops[:2]] == [2 * 8 * 4] * 2  # every tensor is moved, whatever the rule
    assert [op.flops for op in live(powers, x, 5)] == [8 * 5]


def test_reading_the_time_makes_a_rule_count(x):
    live(powers, x, 2)
    with torch.simacc.record() as rec:
        register("late_rules.powers", attributes=("times",))(per_time)
        event = torch.simacc.Event(enable_timing=True)
        event.record()
        event.elapsed_time(event)
        powers(x, 5)
    assert rec.trace.flops == 8 * 5


F = torch.nn.functional
CALLS: dict[str, tuple[str, Callable[[torch.Tensor], object]]] = {
    # a typed kernel, a boxed one, in place, and kernels written by hand
    "aten.gelu": ("approximate", lambda t: F.gelu(t, approximate="tanh")),
    "aten.sum": ("dim", lambda t: t.sum((0,))),
    "aten.roll": ("shifts", lambda t: t.roll((3,), (0,))),
    "aten.clamp": ("max", lambda t: t.clamp_(max=2.5)),
    "aten.histc": ("bins", lambda t: t.histc(7)),
    "aten.native_dropout": ("p", lambda t: torch.native_dropout(t, 0.25, True)),
    "aten.copy_": ("non_blocking", lambda t: t.copy_(t.clone(), non_blocking=True)),
}


@pytest.mark.parametrize("name", CALLS)
def test_every_kind_of_kernel_keeps_what_a_late_rule_reads(monkeypatch, x, name):
    attribute, call = CALLS[name]
    call(x)  # the kernel has run before
    monkeypatch.setitem(registry._RULES, name, Rule(per_element, (attribute,)))
    recorded = [op.signature for op in live(call, x) if op.signature.attributes]
    dispatched = [op.signature for op in sd.trace(call, torch.ones(8)).ops if op.signature.attributes]
    assert [s.attributes for s in recorded] == [s.attributes for s in dispatched]
    assert [s.name.rstrip("_") for s in recorded] == [name.rstrip("_")]
    assert recorded[0].attribute(attribute, None) is not None


def test_rules_are_asked_for_in_the_order_that_they_declare(monkeypatch, x):
    monkeypatch.setitem(registry._RULES, "aten.roll", Rule(per_element, ("dims", "no_such_argument", "shifts")))
    (op,) = live(lambda t: t.roll((3,), (0,)), x)
    assert op.signature.attributes == (("dims", (0,)), ("shifts", (3,)))
    assert op.flops == 8
