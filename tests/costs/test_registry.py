"""The registry: one rule per operator, a caller's rules by argument, strictness on request."""

from __future__ import annotations

import re

import pytest

from simdevice.costs import Costs, Rule, base_name, register, registered, streamed
from simdevice.errors import SimdeviceError, SpecError, UncostedOperatorError
from simdevice.records import OpTable, Signature, TensorSpec

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


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        (["aten.mm"], r"expected rules as a mapping of operator names to functions, got \['aten.mm'\]"),
        ({"aten::mm": double}, r"expected the name of an operator such as 'aten.mm' for a rule, got 'aten::mm'"),
        ({"mm": double}, r"expected the name of an operator such as 'aten.mm' for a rule, got 'mm'"),
        ({"aten.mm": 7}, r"expected a function of a signature as the rule for 'aten.mm', got 7"),
    ],
)
def test_rules_that_could_never_match_are_refused(rules, message):
    with pytest.raises(SpecError, match=f"^{message}$"):
        Costs(rules)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (lambda s: 1 / 0, "the rule for 'mine.op' raised ZeroDivisionError: division by zero"),
        (lambda s: 3, "expected a Cost from the rule for 'mine.op', got 3"),
        (lambda s: streamed(s, "matmul", -1), "expected flops of 'mine.op' as a whole number from 0 on, got -1"),
        (lambda s: streamed(s, "matmul", 1.5), "expected flops of 'mine.op' as a whole number from 0 on, got 1.5"),
        (lambda s: streamed(s, "matmull", 1), "unknown category from the rule for 'mine.op' 'matmull': did you mean"),
    ],
)
def test_a_callers_rule_is_checked_when_it_is_asked(rule, message):
    with pytest.raises(SimdeviceError) as caught:
        Costs({"mine.op": rule})(CALL)
    assert str(caught.value).startswith(message)


def test_a_rule_that_raises_leaves_a_table_sound():
    table = OpTable(Costs({"mine.op": lambda s: 3}))
    with pytest.raises(SpecError):
        table.intern(CALL)
    assert (len(table.signatures), len(table.costs)) == (0, 0)
