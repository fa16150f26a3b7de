"""Operators of ONNX Runtime's own: the shapes that are computed are those that it computes, and costs take them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_models import save

import simdevice as sd

FLOAT = np.float32
RANDOM = np.random.default_rng(0)


def real(*shape: int) -> Any:
    return RANDOM.standard_normal(shape).astype(FLOAT)


def byte(*shape: int) -> Any:
    return RANDOM.integers(0, 9, shape, dtype=np.uint8)


def scale() -> Any:
    return np.array(0.5, FLOAT)


def zero() -> Any:
    return np.array(3, np.uint8)


# Operator: attributes, inputs (None: left out), how many outputs. What the graph is given comes first, as many as
# inputs that are not weights by nature.
CASES: dict[str, tuple[dict[str, Any], list[Any], int]] = {
    "Attention": ({"num_heads": 2}, [real(2, 5, 8), real(8, 24), real(24)], 1),
    "BiasGelu": ({}, [real(2, 8), real(8)], 1),
    "CDist": ({"metric": "sqeuclidean"}, [real(4, 3), real(5, 3)], 1),
    "DecoderMaskedMultiHeadAttention": (
        {"num_heads": 2, "past_present_share_buffer": 1},
        [
            *(real(1, 1, 16), real(1, 1, 16), real(1, 1, 16), None, None, real(1, 2, 8, 8), real(1, 2, 8, 8)),
            np.array([3], np.int32),
        ],
        3,
    ),
    "DequantizeLinear": ({}, [byte(2, 3), scale(), zero()], 1),
    "DynamicQuantizeMatMul": ({}, [real(2, 8), byte(8, 6), scale(), zero()], 1),
    "EmbedLayerNormalization": (
        {},
        [
            *(np.zeros((2, 5), np.int32), np.zeros((2, 5), np.int32)),
            *(real(30, 8), real(10, 8), real(2, 8), real(8), real(8)),
        ],
        2,
    ),
    "FastGelu": ({}, [real(2, 8), real(8)], 1),
    "FusedConv": ({"activation": "Relu", "pads": [1, 1, 1, 1]}, [real(1, 4, 6, 6), real(8, 4, 3, 3), real(8)], 1),
    "FusedGemm": ({"activation": "Relu", "transB": 1}, [real(3, 4), real(5, 4), real(5)], 1),
    "FusedMatMul": ({"transA": 1, "alpha": 0.5}, [real(2, 4, 3), real(2, 4, 5)], 1),
    "FusedMatMul transposed batch": ({"transBatchA": 1, "transBatchB": 1}, [real(3, 2, 4), real(4, 2, 5)], 1),
    "Gelu": ({}, [real(2, 8)], 1),
    "GroupQueryAttention": (
        {"num_heads": 4, "kv_num_heads": 2},
        [
            *(real(1, 3, 32), real(1, 3, 16), real(1, 3, 16), real(1, 2, 8, 8), real(1, 2, 8, 8)),
            *(np.array([2], np.int32), np.array(3, np.int32)),
        ],
        3,
    ),
    "Inverse": ({}, [real(2, 3, 3)], 1),
    "LinearAttention": (
        {"q_num_heads": 4, "kv_num_heads": 2, "update_rule": "linear"},
        [real(2, 3, 32), real(2, 3, 16), real(2, 3, 12)],
        2,
    ),
    "MatMulIntegerToFloat": ({}, [byte(2, 8), byte(8, 6), scale(), scale(), zero(), zero(), real(6)], 1),
    "MatMulNBits": ({"K": 32, "N": 6, "bits": 4, "block_size": 32}, [real(2, 32), byte(6, 1, 16), real(6)], 1),
    "MoE": (
        {"k": 2, "activation_type": "silu"},
        [real(3, 16), real(3, 4), real(4, 32, 16), None, real(4, 16, 32)],
        1,
    ),
    "MultiHeadAttention": ({"num_heads": 2}, [real(2, 5, 8), real(2, 7, 8), real(2, 7, 8)], 1),
    "NhwcMaxPool": ({"kernel_shape": [2, 2], "strides": [2, 2]}, [byte(1, 6, 6, 4)], 1),
    "QAttention": (
        {"num_heads": 2},
        [real(2, 5, 8), None, real(24), scale(), scale(), None, zero(), zero()],
        1,
    ),
    "QGemm": ({"transB": 1}, [byte(3, 4), scale(), zero(), byte(5, 4), scale(), zero(), None, scale(), zero()], 1),
    "QGemm to float": ({}, [byte(3, 4), scale(), zero(), byte(4, 5), scale(), zero()], 1),
    "QLinearAdd": ({}, [byte(2, 3), scale(), zero(), byte(3), scale(), zero(), scale(), zero()], 1),
    "QLinearAveragePool": (
        {"kernel_shape": [2, 2], "strides": [2, 2]},
        [byte(1, 4, 6, 6), scale(), zero(), scale(), zero()],
        1,
    ),
    "QLinearConcat": ({"axis": 1}, [scale(), zero(), byte(2, 3), scale(), zero(), byte(2, 4), scale(), zero()], 1),
    "QLinearConv": (
        {"channels_last": 1, "kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]},
        [byte(1, 6, 6, 4), scale(), zero(), byte(8, 4, 3, 3), scale(), zero(), scale(), zero()],
        1,
    ),
    "QLinearGlobalAveragePool": ({}, [byte(1, 4, 6, 6), scale(), zero(), scale(), zero()], 1),
    "QLinearLeakyRelu": ({}, [byte(2, 3), scale(), zero(), scale(), zero()], 1),
    "QLinearMul": ({}, [byte(2, 3), scale(), zero(), byte(3), scale(), zero(), scale(), zero()], 1),
    "QLinearSigmoid": ({}, [byte(2, 3), scale(), zero(), scale(), zero()], 1),
    "QLinearSoftmax": ({"axis": 1, "opset": 13}, [byte(2, 3), scale(), zero(), scale(), zero()], 1),
    "QLinearWhere": (
        {},
        [np.ones((2, 1), bool), byte(2, 3), scale(), zero(), byte(3), scale(), zero(), scale(), zero()],
        1,
    ),
    "QMoE": (
        {"k": 2, "activation_type": "swiglu", "swiglu_fusion": 1, "expert_weight_bits": 4},
        [real(3, 32), real(3, 4), byte(4, 64, 16), real(4, 64), None, byte(4, 32, 16), real(4, 32)],
        1,
    ),
    "QuantizeLinear": ({}, [real(2, 3), scale(), zero()], 1),
    "QuickGelu": ({}, [real(2, 8)], 1),
    "RotaryEmbedding": ({}, [real(2, 5, 16), np.zeros((2, 5), np.int64), real(8, 8), real(8, 8)], 1),
    "SkipLayerNormalization": ({}, [real(2, 5, 8), real(2, 5, 8), real(8), real(8), real(8)], 1),
    "SkipSimplifiedLayerNormalization": ({}, [real(2, 5, 8), real(2, 5, 8), real(8)], 1),
}


def model(name: str, attributes: dict[str, Any], inputs: list[Any], outputs: int, path: Path) -> str:
    """One node; what comes first is given at run time, whole-number weights and the like are stored."""
    names = ["" if v is None else f"i{i}" for i, v in enumerate(inputs)]
    results = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(name.split()[0], names, results, domain="com.microsoft", **attributes)
    after = [helper.make_node("Identity", [r], [f"z{i}"]) for i, r in enumerate(results)]
    first = next(i for i, v in enumerate(inputs) if v is not None and v.size > 1)
    graph = helper.make_graph(
        [node, *after],
        "g",
        [
            helper.make_tensor_value_info(
                f"i{first}", helper.np_dtype_to_tensor_dtype(inputs[first].dtype), inputs[first].shape
            )
        ],
        [helper.make_tensor_value_info(f"z{i}", TensorProto.UNDEFINED, None) for i in range(outputs)],
        [numpy_helper.from_array(v, f"i{i}") for i, v in enumerate(inputs) if v is not None and i != first],
    )
    for value in graph.output:
        value.ClearField("type")
    domains = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=domains, ir_version=9), path)
    return str(path)


@pytest.mark.parametrize("name", CASES)
def test_a_contrib_operators_shapes_are_onnx_runtimes(name: str, tmp_path: Path) -> None:
    attributes, inputs, outputs = CASES[name]
    if name == "QAttention":  # its weights are signed or not, but one of both
        inputs = [byte(2, 5, 8), byte(8, 24), *inputs[2:]]
    path = model(name, attributes, inputs, outputs, tmp_path / "model.onnx")
    trace = sd.trace(path)
    assert trace.unknown() == {}
    ran = sd.trace(path, shapes="run")
    assert [op.signature for op in trace.ops] == [op.signature for op in ran.ops]
    assert trace.ops[0].name == f"com.microsoft.{name.split()[0]}"
    assert (trace.ops[0].flops or 0) > 0


def test_new_keys_join_the_past_where_the_total_or_the_file_says_so(tmp_path: Path) -> None:
    text = """g (float[1, S, 32] q, float[1, S, 16] k, float[1, S, 16] v, float[1, 2, P, 8] pk, float[1, 2, P, 8] pv,
                 int32[1] lengths, TOTAL) => (float[1, S, 32] y, float[1, 2, KEYS, 8] nk, float[1, 2, KEYS, 8] nv)
        { HOW y, nk, nv = com.microsoft.GroupQueryAttention<num_heads = 4, kv_num_heads = 2>
          (q, k, v, pk, pv, lengths, total) }"""
    dims = {"S": 1, "P": 7}
    cases = [
        # the total is the length of a mask, as generators of language models write it
        (
            *("float[1, T] mask", "KEYS", {**dims, "T": 8}, 8),
            "s = Shape(mask)  l = Gather(s, one)  total = Cast<to = 6>(l)",
        ),
        ("int32 total", "P + S", dims, 8, ""),  # present says so
        ("int32 total", "P", dims, 7, ""),  # a buffer that both share
    ]
    for total, keys, sizes, expected, how in cases:
        source = text.replace("TOTAL", total).replace("KEYS", f'"{keys}"').replace("HOW", how)
        if how:
            source = source.replace("{ s =", "{ one = Constant<value_int = 1>()  s =")
        trace = sd.trace(save(tmp_path, source.replace('"P"', "P").replace('"KEYS"', "KEYS")), dims=sizes)
        (op,) = (o for o in trace.ops if o.name.endswith("GroupQueryAttention"))
        assert op.flops == 4 * expected * 37, (total, keys)
        assert op.outputs[1].shape == (1, 2, expected, 8)


BLOCKED = """g (float[1, 3, 16, 16] x) => (float[1, 4, 12] y)
    { a = Conv<pads = [1, 1, 1, 1]>(x, w, b)  r = Relu(a)  p = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(r)
      c = Conv(p, v)  s = Resize<mode = "nearest", coordinate_transformation_mode = "asymmetric",
                                 nearest_mode = "floor">(c, , scales)
      m = AveragePool<kernel_shape = [3, 3], strides = [3, 3]>(s)  l = Transpose<perm = [0, 2, 3, 1]>(m)
      y = Reshape(l, to) }"""


def test_a_file_of_the_last_optimisation_level_has_the_shapes_of_a_run(tmp_path: Path) -> None:
    import onnxruntime as ort

    model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 17]> {BLOCKED}')
    stored = {
        "w": real(16, 3, 3, 3),
        "b": real(16),
        "v": real(16, 16, 3, 3),
        "scales": np.array([1, 1, 2, 2], FLOAT),
        "to": np.array([1, 16, 16]),
    }
    model.graph.initializer.extend(numpy_helper.from_array(v, n) for n, v in stored.items())
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 16, 16]))
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    path = options.optimized_model_filepath = str(tmp_path / "optimised.onnx")
    ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    domains = {node.domain for node in onnx.load(path).graph.node}
    if "com.microsoft.nchwc" not in domains:
        pytest.skip("ONNX Runtime blocks no channels here: removed on a processor with AVX or NEON, where it does")
    trace, ran = sd.trace(path), sd.trace(path, shapes="run")
    assert trace.unknown() == {}
    assert [op.signature for op in trace.ops] == [op.signature for op in ran.ops]
    # 16 channels of 16 x 16, each 2 x 27 and a bias and an activation; 16 of 6 x 6, each 2 x 144 (and a zero bias)
    first, second = (op.flops for op in trace.ops if op.category == "convolution")
    assert first == 16 * 16 * 16 * (2 * 27 + 2)
    assert second in (16 * 6 * 6 * 2 * 144, 16 * 6 * 6 * (2 * 144 + 1))
