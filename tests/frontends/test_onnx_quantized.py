"""Quantised files cost what their quantised operators cost, in whichever way they are spelt."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_models import save

import simdevice as sd
from simdevice.records import Trace

RANDOM = np.random.default_rng(0)


def real(*shape: int) -> Any:
    return RANDOM.standard_normal(shape).astype(np.float32)


@pytest.fixture(scope="module")
def networks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A float network of convolutions and what ONNX Runtime's quantiser makes of it."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    folder = tmp_path_factory.mktemp("quantised")
    window: dict[str, Any] = {"pads": [1, 1, 1, 1], "kernel_shape": [3, 3]}
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["a"], **window),
        helper.make_node("Relu", ["a"], ["p"]),
        helper.make_node("MaxPool", ["p"], ["m"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["m", "w2", "b2"], ["q"], **window),
        helper.make_node("Relu", ["q"], ["s"]),
        helper.make_node("GlobalAveragePool", ["s"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]),
        helper.make_node("Gemm", ["f", "w3", "b3"], ["y"], transB=1),
    ]
    stored = {"w": real(64, 16, 3, 3), "b": real(64), "w2": real(64, 64, 3, 3), "b2": real(64), "w3": real(10, 64)}
    stored["b3"] = real(10)
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 16, 32, 32])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 10])],
        [numpy_helper.from_array(v, n) for n, v in stored.items()],
    )
    paths = {"float": str(folder / "float.onnx")}
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), paths["float"])

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.left = iter([{"x": real(1, 16, 32, 32)}])

        def get_next(self) -> Any:
            return next(self.left, None)

    logging.disable(logging.WARNING)  # its advice on preparing a model
    try:
        for name, per_channel in (("QDQ", False), ("QOperator", False), ("QDQ", True)):
            key = f"{name} per channel" if per_channel else name
            paths[key] = str(folder / f"{key}.onnx")
            quantize_static(
                *(paths["float"], paths[key], Reader()),
                quant_format=QuantFormat[name],
                per_channel=per_channel,
                weight_type=QuantType.QInt8,
            )
    finally:
        logging.disable(logging.NOTSET)
    return paths


def products(trace: Trace) -> list[tuple[int, ...]]:
    return [(p.batch, p.m, p.k, p.n) for op in trace.ops for p in op.cost.products]


@pytest.mark.parametrize(("kind", "scales"), [("QDQ", 2), ("QOperator", 13), ("QDQ per channel", 2)])
def test_a_quantised_network_has_the_products_of_its_original_in_bytes(
    networks: dict[str, str], kind: str, scales: int
) -> None:
    original, trace = sd.trace(networks["float"]), sd.trace(networks[kind])
    assert products(trace) == products(original)
    bits = {(p.a_bits, p.b_bits, p.out_bits) for op in trace.ops for p in op.cost.products}
    assert bits == {(8, 8, 8)}
    # weights of 1 byte and biases of 4; each scale that an operator of its own reads has 4, its zero point 1
    weights = 64 * 16 * 9 + 64 * 64 * 9 + 640
    assert trace.weight_bytes == weights + 4 * (64 + 64 + 10) + 5 * scales
    assert trace.bytes < original.bytes / 4
    for device in ("edge-npu", "dc-npu", "h100", "optical"):
        assert sd.device(device).run(trace).time_s < sd.device(device).run(original).time_s, device


def test_both_spellings_cost_the_same(networks: dict[str, str]) -> None:
    pairs, operators = sd.trace(networks["QDQ"]), sd.trace(networks["QOperator"])
    assert pairs.flops == operators.flops
    assert abs(pairs.bytes - operators.bytes) < 100  # scales and zero points
    ran = sd.trace(networks["QDQ"], shapes="run")
    assert [op.signature for op in pairs.ops] == [op.signature for op in ran.ops]


PAIR = """g (float[4, 8] x) => (float[4, 6] y)
    <float s = {0.5}, uint8 z = {3}, int8 zw = {0}, int8[8, 6] w = {ONES}>
    { q = QuantizeLinear(x, s, z)  d = DequantizeLinear(q, s, z)  dw = DequantizeLinear(w, s, zw)  BODY }""".replace(
    "ONES", ", ".join(["1"] * 48)
)


def rows(folder: Path, body: str) -> list[tuple[str, list[str], list[str]]]:
    trace = sd.trace(save(folder, PAIR.replace("BODY", body)))
    return [(op.name[5:], [t.dtype for t in op.inputs], [t.dtype for t in op.outputs]) for op in trace.ops]


def test_an_activation_between_an_operator_and_its_quantisation_is_quantised(tmp_path: Path) -> None:
    body = "m = MatMul(d, dw)  r = Relu(m)  t = QuantizeLinear(r, s, z)  y = DequantizeLinear(t, s, z)"
    assert [(name, i[0], o) for name, i, o in rows(tmp_path, body)[1:]] == [
        ("MatMul", "uint8", ["uint8"]),
        ("Relu", "uint8", ["uint8"]),
        ("DequantizeLinear", "uint8", ["float32"]),
    ]


def test_a_float_result_is_made_of_floats_and_stored_weights(tmp_path: Path) -> None:
    # the activations are wanted as floats, the weight as it is stored
    made = rows(tmp_path, "y = MatMul(d, dw)")
    assert made[1:] == [
        ("DequantizeLinear", ["uint8", "float32", "uint8"], ["float32"]),
        ("MatMul", ["float32", "int8", "float32", "int8"], ["float32"]),
    ]
    # two readers of the result: it is needed as floats
    twice = "m = MatMul(d, dw)  t = QuantizeLinear(m, s, z)  e = DequantizeLinear(t, s, z)  y = Add(m, e)"
    assert [name for name, *_ in rows(tmp_path, twice)] == [
        *("QuantizeLinear", "DequantizeLinear", "MatMul", "QuantizeLinear", "DequantizeLinear", "Add"),
    ]


def test_what_is_dequantised_for_two_is_dequantised_once(tmp_path: Path) -> None:
    body = "a = MatMul(d, dw)  e = Relu(d)  f = Sigmoid(d)  g = Add(e, f)  h = MatMul(g, dw)  y = Add(a, h)"
    assert [name for name, *_ in rows(tmp_path, body)].count("DequantizeLinear") == 1


def test_a_transposed_dequantised_weight_is_the_weight(tmp_path: Path) -> None:
    body = "l = Transpose<perm = [1, 0]>(dw)  k = Transpose<perm = [1, 0]>(l)  y = MatMul(d, k)"
    made = rows(tmp_path, body)
    assert [name for name, *_ in made] == ["QuantizeLinear", "DequantizeLinear", "MatMul"]
    assert made[-1][1] == ["float32", "int8", "float32", "int8"]
