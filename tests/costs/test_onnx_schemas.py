"""Every operator that the installed onnx defines is costed, free, or unknown with a reason; all of ONNX's own examples
can be costed."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import defs

from simdevice.costs import Costs, registered
from simdevice.costs.onnx import PARAMETERS
from simdevice.costs.onnx.unknown import UNKNOWN
from simdevice.frontends.emitter import Emitter
from simdevice.frontends.onnx.files import graphs, prepared
from simdevice.frontends.onnx.shapes import Schemas
from simdevice.frontends.onnx.values import Value, of_array, of_tensor, sequence
from simdevice.frontends.onnx.walker import GraphWalker
from simdevice.records import Origin, Trace

# ONNX Runtime puts this one into the default domain by itself.
NOT_IN_ONNX = {"onnx.SimplifiedLayerNormalization"}


def of_domain(domain: str) -> dict[str, defs.OpSchema]:
    """The newest schema of every operator."""
    return {s.name: s for s in defs.get_all_schemas() if s.domain == domain}


@pytest.mark.parametrize("domain", ["", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training"])
def test_every_operator_of_the_installed_onnx_has_a_rule_or_a_reason(domain: str) -> None:
    prefix = domain or "onnx"
    missing = sorted(name for name in of_domain(domain) if f"{prefix}.{name}" not in registered())
    assert missing == []


def test_no_rule_is_for_an_operator_that_does_not_exist() -> None:
    known = {f"onnx.{s.name}" for s in defs.get_all_schemas_with_history() if s.domain == ""} | NOT_IN_ONNX
    assert {name for name in registered() if name.startswith("onnx.")} - known == set()


def test_what_stays_unknown_is_a_short_list_with_reasons() -> None:
    mine = sorted(name.removeprefix("onnx.") for name in UNKNOWN if name.startswith("onnx."))
    assert mine == [
        *("If", "ImageDecoder", "Loop", "MaxRoiPool", "NonMaxSuppression", "RegexFullMatch", "Scan", "SequenceMap"),
        *("StringConcat", "StringNormalizer", "StringSplit", "TfIdfVectorizer"),
    ]
    assert all(len(reason.split()) > 3 for reason in UNKNOWN.values())


def test_parameters_are_inputs_of_their_operators() -> None:
    schemas = of_domain("")
    for name, parameters in PARAMETERS.items():
        domain, _, op = name.rpartition(".")
        if domain == "onnx":
            assert max(parameters) < len(schemas[op].inputs) or op == "Upsample", name


@cache
def examples() -> list[Any]:
    """ONNX's own node tests: a model of a node or a few, inputs, results."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the examples overflow on purpose
        return [case for case in collect_testcases(None) if case.model is not None]


def walk(case: Any, *, contents: bool) -> tuple[Trace, list[Value], list[Any]]:
    """An example's trace and results, with or without its inputs' contents known."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    model = prepared(model)
    emitter = Emitter(Costs())
    opsets = {("" if o.domain == "ai.onnx" else o.domain): o.version for o in model.opset_import}
    used = {n for _, graph in graphs(model.graph) for n in (*(o.name for o in graph.output), *_read(graph))}
    walker = GraphWalker(emitter, Schemas(opsets), used=used)
    given, results = case.data_sets[0]
    inputs = [_value(array, emitter) for array in given]
    if not contents:
        for value in inputs:
            value.data = None
    found = walker.walk(model.graph, {}, inputs)
    return emitter.finish(Origin("onnx")), found, results


def _read(graph: onnx.GraphProto) -> list[str]:
    return [name for node in graph.node for name in node.input]


def _value(array: Any, emitter: Emitter) -> Value:
    if array is None:
        return sequence([])
    if isinstance(array, list):
        return sequence([_value(item, emitter) for item in array])
    if isinstance(array, onnx.TensorProto):
        value = of_tensor(array, emitter.storage(), is_weight=False)
        value.constant = False
        return value
    return of_array(np.asarray(array), emitter.storage())


def test_every_example_has_a_cost_that_can_be() -> None:
    allowed = set(UNKNOWN)
    assert len(examples()) > 1500
    for case in examples():
        trace, _, _ = walk(case, contents=False)
        for name, reason in trace.unknown().items():
            assert name in allowed or reason.startswith("node '"), (case.name, name, reason)
            assert "cost rule" not in reason, (case.name, name, reason)
        for cost in (trace.table.costs[i] for i in trace.rows.signature):
            assert min(cost.bytes_read, cost.bytes_written, cost.weight_bytes, cost.flops or 0) >= 0, case.name
            assert cost.weight_bytes <= cost.bytes_read, case.name


def test_the_results_of_every_example_have_the_shapes_that_are_computed() -> None:
    open_ = set()
    for case in examples():
        if case.name == "test_if_opt":  # its result is an optional that holds a sequence
            continue
        _, found, results = walk(case, contents=True)
        for value, result in zip(found, results, strict=True):
            if isinstance(result, np.ndarray):
                if not value.resolved:
                    open_.add(case.name.split("_")[1])
                else:
                    assert value.shape == result.shape, case.name
            elif isinstance(result, list) and value.items is not None:
                assert [v.shape for v in value.items] == [np.asarray(r).shape for r in result], case.name
    # pictures need a library that decodes them; texts are no numbers
    assert open_ <= {"image", "string", "strnormalizer"}


def test_without_contents_only_what_data_decides_stays_open() -> None:
    wrong = []
    for case in examples():
        _, found, results = walk(case, contents=False)
        wrong += [
            case.name
            for value, result in zip(found, results, strict=True)
            if isinstance(result, np.ndarray) and value.resolved and value.shape != result.shape
        ]
    assert wrong == []
