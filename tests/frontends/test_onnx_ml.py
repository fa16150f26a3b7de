"""Classical models (domain ai.onnx.ml): shapes are those that ONNX Runtime computes; what can't be counted says why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import simdevice as sd

FLOATS = np.ones((5, 4), np.float32)

# One stump: feature 0 against 0.5, a leaf on either side.
STUMP = {
    "nodes_treeids": [0, 0, 0],
    "nodes_nodeids": [0, 1, 2],
    "nodes_featureids": [0, 0, 0],
    "nodes_values": [0.5, 0.0, 0.0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
    "nodes_truenodeids": [1, 0, 0],
    "nodes_falsenodeids": [2, 0, 0],
}


def _leaves(kind: str) -> dict[str, Any]:
    return {
        f"{kind}_treeids": [0, 0],
        f"{kind}_nodeids": [1, 2],
        f"{kind}_ids": [0, 1],
        f"{kind}_weights": [1.0, 1.0],
    }


def _vectors(classes: int, *, probabilities: bool) -> dict[str, Any]:
    """One support vector of 4 features per class, compared pair by pair."""
    pairs = classes * (classes - 1) // 2
    chances = {"prob_a": [-1.0] * pairs, "prob_b": [0.0] * pairs} if probabilities else {}
    return {
        "classlabels_ints": list(range(classes)),
        "vectors_per_class": [1] * classes,
        "support_vectors": [float(n) for n in range(4 * classes)],
        "coefficients": [1.0] * (classes - 1) * classes,
        "rho": [0.0] * pairs,
        "kernel_type": "RBF",
        "kernel_params": [0.5, 0.0, 3.0],
        **chances,
    }


# Operator: attributes, inputs, how many outputs, FLOPs (None: unknown).
CASES: dict[str, tuple[dict[str, Any], list[Any], int, int | None]] = {
    "ArrayFeatureExtractor": ({}, [FLOATS, np.array([[2, 0, 1]])], 1, 0),
    "ArrayFeatureExtractor of one row": ({}, [FLOATS[0], np.array([2, 0])], 1, 0),
    "Binarizer": ({"threshold": 0.5}, [FLOATS], 1, 20),
    "FeatureVectorizer": ({"inputdimensions": [4, 4]}, [FLOATS, FLOATS], 1, 0),
    "Imputer": ({"imputed_value_floats": [1.0], "replaced_value_float": 0.0}, [FLOATS], 1, 20),
    "LabelEncoder": ({"keys_int64s": [1], "values_strings": ["a"]}, [np.ones(5, np.int64)], 1, None),
    # 5 rows x 3 targets x (2 x 4 features + 1)
    "LinearClassifier": (
        {"classlabels_ints": [0, 1, 2], "coefficients": [0.5] * 12, "intercepts": [0.0] * 3},
        [FLOATS],
        2,
        135,
    ),
    "LinearClassifier of two": (
        {
            "classlabels_strings": ["a", "b"],
            "coefficients": [0.5] * 4,
            "intercepts": [0.0],
            "post_transform": "LOGISTIC",
        },
        [FLOATS],
        2,
        90,
    ),
    "LinearRegressor": ({"coefficients": [0.5] * 8, "intercepts": [0.0] * 2, "targets": 2}, [FLOATS], 1, 90),
    "Normalizer": ({"norm": "L2"}, [FLOATS], 1, 100),
    "OneHotEncoder": ({"cats_int64s": [1, 2, 3]}, [np.ones((5, 2), np.int64)], 1, 0),
    "SVMClassifier": (_vectors(4, probabilities=False), [FLOATS], 2, None),
    "SVMClassifier with probabilities": (_vectors(4, probabilities=True), [FLOATS], 2, None),
    "SVMClassifier of two": (_vectors(2, probabilities=False), [FLOATS], 2, None),
    "SVMRegressor": (
        {
            "n_supports": 2,
            "support_vectors": [1.0] * 8,
            "coefficients": [1.0] * 2,
            "rho": [0.0],
            "kernel_type": "LINEAR",
            "kernel_params": [0.5, 0.0, 3.0],
        },
        [FLOATS],
        1,
        None,
    ),
    "Scaler": ({"offset": [0.0], "scale": [2.0]}, [FLOATS], 1, 40),
    "TreeEnsembleClassifier": ({**STUMP, **_leaves("class"), "classlabels_strings": ["a", "b"]}, [FLOATS], 2, None),
    "TreeEnsembleRegressor": ({**STUMP, **_leaves("target"), "n_targets": 2}, [FLOATS], 1, None),
}


def model(name: str, attributes: dict[str, Any], inputs: list[Any], outputs: int, path: Path) -> str:
    names = [f"i{n}" for n in range(len(inputs))]
    results = [f"y{n}" for n in range(outputs)]
    after = [helper.make_node("Identity", [r], [f"z{r}"]) for r in results]
    graph = helper.make_graph(
        [helper.make_node(name.split()[0], names, results, domain="ai.onnx.ml", **attributes), *after],
        "g",
        [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
            for n, v in zip(names, inputs, strict=True)
        ],
        [helper.make_tensor_value_info(f"z{r}", TensorProto.UNDEFINED, None) for r in results],
    )
    for value in graph.output:
        value.ClearField("type")
    domains = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    onnx.save(helper.make_model(graph, opset_imports=domains, ir_version=8), path)
    return str(path)


@pytest.mark.parametrize("name", CASES)
def test_a_classical_models_shapes_are_onnx_runtimes(name: str, tmp_path: Path) -> None:
    attributes, inputs, outputs, flops = CASES[name]
    path = model(name, attributes, inputs, outputs, tmp_path / "model.onnx")
    given = {f"i{n}": v for n, v in enumerate(inputs)}
    trace, ran = sd.trace(path), sd.trace(path, inputs=given, shapes="run")
    assert [op.signature for op in trace.ops] == [op.signature for op in ran.ops]
    assert trace.ops[0].flops == flops
    assert len(trace.ops) == 1 + outputs  # every result goes on
    reasons = [reason for reason in trace.unknown().values() if "how large its result is" in reason]
    assert reasons == []


def test_a_map_is_named_by_its_own_reason(tmp_path: Path) -> None:
    graph = helper.make_graph(
        [helper.make_node("ZipMap", ["x"], ["z"], domain="ai.onnx.ml", classlabels_int64s=[0, 1])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [5, 2])],
        [
            helper.make_value_info(
                "z",
                helper.make_sequence_type_proto(helper.make_map_type_proto(7, helper.make_tensor_type_proto(1, []))),
            )
        ],
    )
    domains = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    onnx.save(helper.make_model(graph, opset_imports=domains, ir_version=8), tmp_path / "m.onnx")
    trace = sd.trace(str(tmp_path / "m.onnx"))
    assert trace.unknown() == {
        "ai.onnx.ml.ZipMap": "node 'ZipMap_0' (ZipMap): maps and dictionaries: their sizes are data"
    }
