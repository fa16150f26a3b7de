"""FLOPs and weight bytes of reference traces never change unnoticed; operator counts and bytes may drift."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from reference_traces import REFERENCES, pins

import simdevice as sd
from simdevice.analysis.gate import check, pin
from simdevice.costs import Costs, registered, streamed
from simdevice.errors import FileFormatError
from simdevice.records import Cost, Signature, Trace


@pytest.mark.parametrize("name", REFERENCES)
def test_the_arithmetic_of_a_reference_is_what_was_pinned(name: str) -> None:
    verdict = check(name, REFERENCES[name](), pins()[name])
    if verdict.drift:
        print(verdict)
    assert verdict.passes, str(verdict)


def test_every_pin_has_its_reference() -> None:
    assert pins().keys() == REFERENCES.keys()


# The gate itself


def linear(**options: Any) -> Trace:
    return sd.trace(torch.nn.Linear(8, 4), torch.ones(2, 8), **options)


def test_a_trace_passes_its_own_pin() -> None:
    verdict = check("linear", linear(), pin(linear()))
    assert verdict.passes
    assert verdict.drift == ()
    assert str(verdict) == "linear: passes"


def test_a_changed_rule_fails_and_the_operator_is_named() -> None:
    def without_bias(signature: Signature) -> Cost:
        return streamed(signature, "matmul", 2 * 2 * 8 * 4)

    verdict = check("linear", linear(rules={"aten.addmm": without_bias}), pin(linear()))
    assert not verdict.passes
    # 2 x 2 x 8 x 4 and a bias for each of 2 x 4
    assert str(verdict) == "linear: FAILS\n  flops: pinned 136, now 128\n    aten.addmm: -8"


def test_a_reference_fails_on_purpose() -> None:
    """The gate over a real reference, its softmax costed as a copy."""

    def free(signature: Signature) -> Cost:
        return streamed(signature, "softmax", 0)

    trace = sd.trace("gpt2", tokens=1024, rules={"aten._safe_softmax": free})
    verdict = check("gpt2 prefill", trace, pins()["gpt2 prefill"])
    assert not verdict.passes
    # 12 layers x 12 heads x 1,024^2 scores x 5
    assert f"    aten._safe_softmax: {-12 * 12 * 1024**2 * 5:+,}" in verdict.failures


def test_lost_weights_fail() -> None:
    weight = torch.nn.Parameter(torch.ones(4, 8))
    as_parameter, as_tensor = (
        sd.trace(lambda x, w: x @ w.T, torch.ones(2, 8), w) for w in (weight, weight.detach().clone())
    )
    verdict = check("linear", as_tensor, pin(as_parameter))
    assert "  weight_bytes: pinned 128, now 0" in verdict.failures


def test_an_operator_that_becomes_unknown_fails() -> None:
    def unknown(signature: Signature) -> Cost:
        return Costs().unknown(signature, "on purpose")

    verdict = check("linear", linear(rules={"aten.addmm": unknown}), pin(linear()))
    assert "  unknown: pinned 0, now 1" in verdict.failures


def test_another_way_to_cut_the_same_arithmetic_is_drift() -> None:
    whole = pin(sd.trace(lambda x: x @ x, torch.ones(4, 4)))
    copied = sd.trace(lambda x: x.clone() @ x, torch.ones(4, 4))
    verdict = check("square", copied, whole)
    assert verdict.passes
    assert verdict.drift == (
        "  drift of calls: pinned 1, now 2",
        "    aten.clone: +1",
        "  drift of bytes: pinned 192, now 320",
        "    aten.clone: +128",
    )


def test_drift_says_which_libraries_changed() -> None:
    pinned = pin(linear())
    pinned["versions"]["torch"] = "2.0.0"
    pinned["totals"]["bytes"] += 1
    drift = check("linear", linear(), pinned).drift
    assert drift[-1] == f"  torch: pinned with 2.0.0, now {torch.__version__}"


def test_a_damaged_pin_is_said() -> None:
    with pytest.raises(FileFormatError, match=r"^the pin of 'linear' is damaged: KeyError\('totals'\)$"):
        check("linear", linear(), {"operators": {}})


def test_pins_know_only_operators_with_rules() -> None:
    names = {op for found in pins().values() for op in found["operators"]}
    assert {n for n in names if n not in registered() and n.rstrip("_") not in registered()} == set()
