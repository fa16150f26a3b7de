"""Each kind of source is told from the others in one place, and takes the options of its kind only."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest
import torch

import simdevice as sd
from simdevice.errors import CaptureError, SpecError, UnknownNameError
from simdevice.frontends import Workload
from simdevice.frontends.onnx_file import OnnxFile
from simdevice.workloads import sources
from simdevice.workloads.sources import KINDS, kind_of, source

EXAMPLES = {
    sources.NamedModel: "gpt2",
    sources.Configuration: "mine/config.json",
    sources.OnnxModel: "mine/Model.ONNX",
    sources.ExportedModel: "mine/program.pt2",
    sources.Operators: [{"name": "aten.neg"}],
    sources.Function: "package.module:function",
    sources.Module: torch.nn.ReLU(),
    sources.Call: torch.neg,
    sources.Given: Workload(torch.neg, (torch.ones(2),)),
}


def test_each_kind_is_told_from_the_others() -> None:
    assert set(EXAMPLES) == set(KINDS)
    assert {kind: kind_of(example) for kind, example in EXAMPLES.items()} == {kind: kind for kind in KINDS}
    assert kind_of(Path("m.onnx")) is sources.OnnxModel


ALL_OPTIONS = sorted({name for kind in KINDS for name in kind.options()})


@pytest.mark.parametrize(("kind", "option"), list(itertools.product(KINDS, ALL_OPTIONS)), ids=str)
def test_an_option_of_another_kind_is_refused_with_the_kinds_it_goes_with(kind: type, option: str) -> None:
    value = "fused" if option == "attention" else 1
    if option in kind.options():
        assert getattr(source(EXAMPLES[kind], options={option: value}), option) == value
        return
    with pytest.raises(SpecError) as refused:
        source(EXAMPLES[kind], options={option: value})
    owners = [other.kind for other in KINDS if option in other.options()]
    assert re.match(rf"^{option}( \(--dim\))? is no option of {re.escape(kind.kind)}", str(refused.value))
    assert all(owner in str(refused.value) for owner in owners)
    assert "\n" not in str(refused.value)


def test_an_option_that_no_kind_has_names_the_nearest() -> None:
    with pytest.raises(
        UnknownNameError, match=r"^unknown option of a model name \(gpt2\) 'token': did you mean 'tokens'"
    ):
        sd.trace("gpt2", token=3)


@pytest.mark.parametrize("given", [3, None, b"gpt2", {"a": 1}])
def test_what_is_no_source_is_one_line(given: object) -> None:
    with pytest.raises(SpecError, match=r"^expected .*, got [^\n]*$"):
        sd.trace(given)


def test_inputs_by_position_go_with_what_is_called() -> None:
    with pytest.raises(SpecError, match=r"^inputs by position go with a module or a callable, not with a model name"):
        sd.trace("gpt2", torch.ones(2))


def test_a_front_end_that_cannot_take_a_kind_is_refused_with_those_that_can() -> None:
    with pytest.raises(
        CaptureError, match=r"^the 'export' front end can't take an ONNX file \(m.onnx\): only 'onnx' can$"
    ):
        sd.trace("m.onnx", frontend="export")
    with pytest.raises(CaptureError, match=r"^the 'dispatch' front end can't take a Workload \(f\): only 'onnx' can$"):
        sd.trace(Workload(OnnxFile("m.onnx"), name="f"), frontend="dispatch")


def test_attention_is_no_option_of_a_workload_that_is_only_read() -> None:
    with pytest.raises(SpecError, match=r"^attention is no option of f$"):
        sd.trace(Workload(OnnxFile("m.onnx"), name="f"), attention="math")


def test_inputs_are_given_or_made_not_both() -> None:
    with pytest.raises(SpecError, match=r"^give inputs, or tokens, decode, batch and cache to have them made, not "):
        sd.trace(torch.nn.ReLU(), torch.ones(2), batch=1)
    with pytest.raises(SpecError, match=r"^inputs can be made for transformers models only: give ReLU its inputs$"):
        sd.trace(torch.nn.ReLU(), tokens=3)
