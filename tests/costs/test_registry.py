"""The registry: one rule per operator, a caller's rules by argument, strictness on request."""

from __future__ import annotations

import re

import pytest

from simdevice.costs import Costs, Rule, base_name, register, registered, streamed
from simdevice.errors import UncostedOperatorError
from simdevice.records import Signature, TensorSpec

CALL = Signature(
    "mine.op", (TensorSpec((2, 3), "float32"), TensorSpec((3,), "int8", True)), (TensorSpec((2,), "bool"),)
)


def double(signature):
    return streamed(signature, "elementwise", 2)


def test_a_second_registration_raises_and_names_both_places():
    with pytest.raises(ValueError, match=r"^two cost rules for 'aten\.mm': ") as caught:
        register("aten.mm")(double)
    places = re.findall(r"(\S+\.py:\d+)", str(caught.value))
    assert [p.rsplit("/", 1)[1].split(":")[0] for p in places] == ["contraction.py", "test_registry.py"]
    assert registered()["aten.mm"].function is not double


def test_without_a_rule_bytes_are_charged_and_flops_unknown():
    cost = Costs()(CALL)
    # 6 floats and 3 bytes read, 2 bools written
    assert (cost.category, cost.flops, cost.reason) == ("unknown", None, "no cost rule")
    assert (cost.bytes_read, cost.bytes_written, cost.weight_bytes) == (27, 2, 3)


def test_strict_turns_a_missing_rule_into_an_error_that_says_what_to_do():
    with pytest.raises(UncostedOperatorError) as caught:
        Costs(strict=True)(CALL)
    assert str(caught.value) == "no cost rule for 'mine.op': give one as rules={'mine.op': ...}"


def test_a_callers_rule_counts_for_that_caller_only():
    mine = Costs({"mine.op": double, "aten.mm": Rule(double, ("alpha",))})
    assert mine(CALL).flops == 2
    assert mine.attributes("aten.mm") == ("alpha",)
    assert Costs()(CALL).flops is None
    assert "mine.op" not in registered()


@pytest.mark.parametrize(
    ("name", "base"), [("aten.add_", "aten.add"), ("aten.add", "aten.add"), ("aten.__ilshift__", "aten.__ilshift__")]
)
def test_in_place_operators_cost_as_their_out_of_place_form(name, base):
    assert base_name(name) == base


def test_copy_into_is_an_operator_of_its_own():
    assert Costs().rule("aten.copy_") is registered()["aten.copy_"]
