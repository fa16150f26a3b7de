"""Result shapes of operators that onnx has no schema for, ONNX Runtime's own mostly (domain com.microsoft)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from onnx import NodeProto, TypeProto, helper

from simdevice.frontends.onnx import blocked_shapes
from simdevice.frontends.onnx.values import Value, elem_type

if TYPE_CHECKING:
    from simdevice.frontends.onnx.shapes import Schemas

__all__ = ["infer"]

Shape = tuple[int, ...]
Found = list[tuple[Shape, str] | None]
Rule = Callable[[NodeProto, Sequence[Value | None]], Found]


def infer(node: NodeProto, inputs: Sequence[Value | None], schemas: Schemas) -> list[TypeProto | None] | None:
    """One type per output, or None where no rule is known or an input's shape is open."""
    is_blocked = node.domain == blocked_shapes.DOMAIN
    like = (blocked_shapes.LIKE_ONNX if is_blocked else _LIKE_ONNX).get(node.op_type)
    if like is not None:
        return _as_onnx(node, inputs, schemas, *like)
    rule = _blocked if is_blocked else _RULES.get(node.op_type)
    if rule is None or any(v is not None and not v.resolved and not v.is_sequence for v in inputs):
        return None
    try:
        found = rule(node, inputs)
    except (IndexError, KeyError, ValueError, ZeroDivisionError, AttributeError, StopIteration):
        return None
    found += [None] * (len(node.output) - len(found))
    return [None if f is None else helper.make_tensor_type_proto(elem_type(f[1]), f[0]) for f in found]


def _blocked(node: NodeProto, inputs: Sequence[Value | None]) -> Found:
    return [(blocked_shapes.RULES[node.op_type](node, _shape(inputs, 0)), _dtype(inputs))]


def attribute(node: NodeProto, name: str, default: Any = None) -> Any:
    """A node's attribute as a Python value."""
    for a in node.attribute:
        if a.name == name:
            return helper.get_attribute_value(a)
    return default


def _as_onnx(
    node: NodeProto, inputs: Sequence[Value | None], schemas: Schemas, op_type: str, kept: tuple[int, ...]
) -> list[TypeProto | None] | None:
    """The same inputs through a default operator of which this is a fused or quantised form."""
    from simdevice.frontends.onnx.shapes import infer as infer_onnx

    twin = NodeProto()
    twin.CopyFrom(node)
    chosen = [i for i in kept if i < len(node.input)]
    twin.op_type, twin.domain = op_type, ""
    del twin.input[:]
    twin.input.extend(node.input[i] for i in chosen)
    plain = schemas.of(twin)
    if plain is None:
        return None
    own = [a for a in node.attribute if a.name in plain.attributes]
    del twin.attribute[:]
    twin.attribute.extend(own)
    del twin.output[len(plain.outputs) :]
    found, _ = infer_onnx(twin, [inputs[i] for i in chosen], schemas)
    if found[0] is None:
        return None
    return found + [None] * (len(node.output) - len(found))


_LIKE_ONNX: dict[str, tuple[str, tuple[int, ...]]] = {
    "FusedConv": ("Conv", (0, 1, 2)),
    "FusedGemm": ("Gemm", (0, 1, 2)),
    "GridSample": ("GridSample", (0, 1)),
    "QLinearAdd": ("Add", (0, 3)),
    "QLinearMul": ("Mul", (0, 3)),
    "QLinearReduceMean": ("ReduceMean", (0,)),
}


def _given(inputs: Sequence[Value | None], index: int) -> Value | None:
    return inputs[index] if index < len(inputs) else None


def _shape(inputs: Sequence[Value | None], index: int) -> Shape:
    value = inputs[index]
    assert value is not None
    assert value.shape is not None
    return value.shape


def _dtype(inputs: Sequence[Value | None], index: int = 0) -> str:
    value = inputs[index]
    assert value is not None
    return value.dtype


def _same(node: NodeProto, inputs: Sequence[Value | None]) -> Found:
    return [(_shape(inputs, 0), _dtype(inputs))]


def _skip_norm(node: NodeProto, inputs: Sequence[Value | None]) -> Found:
    """The normalised sum, a mean, a deviation, the sum itself."""
    shape = _shape(inputs, 0)
    small = (*shape[:-1], 1)
    return [(shape, _dtype(inputs)), (small, "float32"), (small, "float32"), (shape, _dtype(inputs))]


def _norm(node: NodeProto, inputs: Sequence[Value | None]) -> Found:
    shape = _shape(inputs, 0)
    axis = attribute(node, "axis", -1) % max(len(shape), 1)
    return [(shape, _dtype(inputs)), (shape[:axis] + (1,) * (len(shape) - axis), "float32")]


def _product(node: NodeProto, inputs: Sequence[Value | None], right: int = 1, dtype: str = "") -> Found:
    left = _operand(node, _shape(inputs, 0), "A")
    other = _operand(node, _shape(inputs, right), "B")
    batch = _broadcast(left[:-2], other[:-2])
    return [((*batch, *left[-2:-1], *other[-1:]), dtype or _dtype(inputs))]


def _operand(node: NodeProto, shape: Shape, side: str) -> Shape:
    """As it is multiplied: `transBatch` puts the first dimension after the others but the last, `trans` swaps two."""
    if attribute(node, f"transBatch{side}", 0):
        shape = (*shape[1:-1], shape[0], shape[-1])
    return (*shape[:-2], shape[-1], shape[-2]) if attribute(node, f"trans{side}", 0) else shape


def _quantized_gemm(node: NodeProto, inputs: Sequence[Value | None]) -> Found:
    """A first, B fourth; without a zero point for it (the ninth) the result is a float."""
    zero_point = _given(inputs, 8)
    return _product(node, inputs, right=3, dtype=zero_point.dtype if zero_point is not None else "float32")


def _where(node: NodeProto, inputs: Sequence[Value | None]) -> Found:
    """The condition, X with its scale and zero point, Y."""
    shape = _broadcast(_shape(inputs, 0), _broadcast(_shape(inputs, 1), _shape(inputs, 4)))
    return [(shape, _dtype(inputs, 1))]


def _broadcast(a: Shape, b: Shape) -> Shape:
    size = max(len(a), len(b))
    left, right = (1,) * (size - len(a)) + a, (1,) * (size - len(b)) + b
    return tuple(y if x == 1 else x for x, y in zip(left, right, strict=True))


def _packed_product(node: NodeProto, inputs: Sequence[Value | None]) -> Found:
    return [((*_shape(inputs, 0)[:-1], int(attribute(node, "N"))), _dtype(inputs))]


def _to_float(node: NodeProto, inputs: Sequence[Value | None]) -> Found:
    return _product(node, inputs, dtype="float32")


def _attention(node: NodeProto, inputs: Sequence[Value | None]) -> Found:
    """input (batch, length, K), weights (K, 3 * width)."""
    batch, length, _ = _shape(inputs, 0)
    width = _shape(inputs, 1)[-1] // 3
    sizes = attribute(node, "qkv_hidden_sizes")
    dtype = "float32" if node.op_type == "QAttention" else _dtype(inputs)
    found: Found = [((batch, length, sizes[2] if sizes else width), dtype)]
    heads = int(attribute(node, "num_heads", 1))
    past = _given(inputs, 4 if node.op_type == "Attention" else 8)
    before = past.shape[3] if past is not None and past.shape else 0
    return [*found, ((2, batch, heads, before + length, width // heads), dtype)]


def _multi_head_attention(node: NodeProto, inputs: Sequence[Value | None]) -> Found:
    query, value = _shape(inputs, 0), _given(inputs, 2)
    heads = int(attribute(node, "num_heads", 1))
    if len(query) == 5:
        batch, length, _, _, width = query
        return [((batch, length, heads * width), _dtype(inputs))]
    wide = query[-1]
    if value is not None and value.shape is not None:
        wide = value.shape[-1] if len(value.shape) == 3 else value.shape[1] * value.shape[-1]
    found: Found = [((*query[:2], wide), _dtype(inputs))]
    past, key = _given(inputs, 6), _given(inputs, 1)
    keys = query[1]
    if key is not None and key.shape is not None:
        keys = key.shape[1] if len(key.shape) == 3 else key.shape[2]
    before = past.shape[2] if past is not None and past.shape else 0
    present = ((query[0], heads, before + keys, wide // heads), _dtype(inputs))
    return [*found, present, present]


def _group_query_attention(node: NodeProto, inputs: Sequence[Value | None]) -> Found:
    batch, length, wide = _shape(inputs, 0)
    heads = int(attribute(node, "num_heads", 1))
    kv_heads = int(attribute(node, "kv_num_heads", heads))
    packed = _given(inputs, 1) is None
    width = wide // (heads + 2 * kv_heads) if packed else wide // heads
    past = _given(inputs, 3)
    keys = max(length, past.shape[2] if past is not None and past.shape else 0)
    present = ((batch, kv_heads, keys, width), _dtype(inputs))
    return [((batch, length, heads * width), _dtype(inputs)), present, present]


def _embedded_norm(node: NodeProto, inputs: Sequence[Value | None]) -> Found:
    """input_ids (batch, length), segment_ids, word table (words, width)."""
    ids, table = _shape(inputs, 0), _shape(inputs, 2)
    result = ((*ids, table[-1]), _dtype(inputs, 2))
    return [result, ((ids[0],), "int32"), result]


def _lstm(node: NodeProto, inputs: Sequence[Value | None]) -> Found:
    """X (steps, batch, features); R (directions, units, 4 * units)."""
    steps, batch, _ = _shape(inputs, 0)
    directions, units = _shape(inputs, 2)[0], int(attribute(node, "hidden_size"))
    state = ((directions, batch, units), "float32")
    return [((steps, directions, batch, units), "float32"), state, state]


def _quantize(node: NodeProto, inputs: Sequence[Value | None]) -> Found:
    zero_point = _given(inputs, 2)
    return [(_shape(inputs, 0), zero_point.dtype if zero_point is not None else "uint8")]


def _dequantize(node: NodeProto, inputs: Sequence[Value | None]) -> Found:
    return [(_shape(inputs, 0), _dtype(inputs, 1))]


def _concat(node: NodeProto, inputs: Sequence[Value | None]) -> Found:
    """Y_scale, Y_zero_point, then tensor, scale and zero point of each part."""
    parts = [_shape(inputs, i) for i in range(2, len(inputs), 3)]
    axis = attribute(node, "axis", 0) % len(parts[0])
    length = sum(p[axis] for p in parts)
    return [((*parts[0][:axis], length, *parts[0][axis + 1 :]), _dtype(inputs, 2))]


def _split_gate(node: NodeProto, inputs: Sequence[Value | None]) -> Found:
    *rest, wide = _shape(inputs, 0)
    return [((*rest, wide // 2), _dtype(inputs))]


def _distances(node: NodeProto, inputs: Sequence[Value | None]) -> Found:
    return [((_shape(inputs, 0)[0], _shape(inputs, 1)[0]), _dtype(inputs))]


def _rfft(node: NodeProto, inputs: Sequence[Value | None]) -> Found:
    *rest, length = _shape(inputs, 0)
    return [((*rest, length // 2 + 1, 2), _dtype(inputs))]


def _irfft(node: NodeProto, inputs: Sequence[Value | None]) -> Found:
    *rest, bins, _ = _shape(inputs, 0)
    return [((*rest, 2 * (bins - 1)), _dtype(inputs))]


def _nhwc_convolution(node: NodeProto, inputs: Sequence[Value | None]) -> Found:
    """X (N, *spatial, C), W (M, *kernel, C / groups)."""
    batch, *spatial, _ = _shape(inputs, 0)
    weight = _shape(inputs, 1)
    return [((batch, *_windows(node, spatial, weight[1:-1]), weight[0]), _dtype(inputs))]


def _quantized_convolution(node: NodeProto, inputs: Sequence[Value | None]) -> Found:
    """X and W first and fourth; `channels_last` moves the channels of X and Y only."""
    source, weight = _shape(inputs, 0), _shape(inputs, 3)
    zero_point = _given(inputs, 7)
    dtype = zero_point.dtype if zero_point is not None else _dtype(inputs)
    if attribute(node, "channels_last", 0):
        return [((source[0], *_windows(node, source[1:-1], weight[2:]), weight[0]), dtype)]
    return [((source[0], weight[0], *_windows(node, source[2:], weight[2:])), dtype)]


def _nhwc_pool(node: NodeProto, inputs: Sequence[Value | None]) -> Found:
    return [(_pooled(node, _shape(inputs, 0), channels_last=True), _dtype(inputs))]


def _quantized_pool(node: NodeProto, inputs: Sequence[Value | None]) -> Found:
    return [(_pooled(node, _shape(inputs, 0), channels_last=bool(attribute(node, "channels_last", 0))), _dtype(inputs))]


def _pooled(node: NodeProto, shape: Shape, *, channels_last: bool) -> Shape:
    """A window per place; without a kernel one window over everything."""
    batch, channels = shape[0], shape[-1 if channels_last else 1]
    spatial = shape[1:-1] if channels_last else shape[2:]
    kernel = attribute(node, "kernel_shape", spatial)
    places = _windows(node, spatial, kernel)
    return (batch, *places, channels) if channels_last else (batch, channels, *places)


def _windows(node: NodeProto, spatial: Sequence[int], kernel: Sequence[int]) -> list[int]:
    """How often a window fits along each dimension."""
    dims = len(spatial)
    strides = attribute(node, "strides", [1] * dims)
    dilations = attribute(node, "dilations", [1] * dims)
    pads = attribute(node, "pads", [0] * (2 * dims))
    if attribute(node, "auto_pad", b"NOTSET") in (b"SAME_UPPER", b"SAME_LOWER"):
        return [-(-n // s) for n, s in zip(spatial, strides, strict=True)]
    up = int(bool(attribute(node, "ceil_mode", 0)))
    return [
        (n + pads[i] + pads[i + dims] - dilations[i] * (kernel[i] - 1) - 1 + up * (strides[i] - 1)) // strides[i] + 1
        for i, n in enumerate(spatial)
    ]


def _gathered_blocks(node: NodeProto, inputs: Sequence[Value | None]) -> Found:
    table, indices = _shape(inputs, 0), _shape(inputs, 1)
    axis = attribute(node, "gather_axis", 0) % len(table)
    return [((*table[:axis], *indices, *table[axis + 1 :]), _dtype(inputs, 2))]


_RULES: dict[str, Rule] = {
    **dict.fromkeys(
        ("BiasAdd", "BiasGelu", "BiasSoftmax", "FastGelu", "Gelu", "GroupNorm", "Inverse", "QuickGelu", "Rsqrt"), _same
    ),
    **dict.fromkeys(("QLinearLeakyRelu", "QLinearSigmoid", "QLinearSoftmax", "RotaryEmbedding", "Trilu"), _same),
    **dict.fromkeys(("FusedMatMul", "GemmFastGelu", "TransposeMatMul"), _product),
    **dict.fromkeys(("DynamicQuantizeMatMul", "MatMulIntegerToFloat"), _to_float),
    **dict.fromkeys(("MatMulBnb4", "MatMulNBits"), _packed_product),
    **dict.fromkeys(("NhwcConv", "NhwcFusedConv"), _nhwc_convolution),
    **dict.fromkeys(("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"), _skip_norm),
    **dict.fromkeys(("Attention", "QAttention"), _attention),
    "BiasSplitGelu": _split_gate,
    "CDist": _distances,
    "DequantizeLinear": _dequantize,
    "DynamicQuantizeLSTM": _lstm,
    "EmbedLayerNormalization": _embedded_norm,
    "GatherBlockQuantized": _gathered_blocks,
    "GroupQueryAttention": _group_query_attention,
    "Irfft": _irfft,
    "MultiHeadAttention": _multi_head_attention,
    "NhwcMaxPool": _nhwc_pool,
    "QGemm": _quantized_gemm,
    "QLinearAveragePool": _quantized_pool,
    "QLinearConcat": _concat,
    "QLinearConv": _quantized_convolution,
    "QLinearGlobalAveragePool": _quantized_pool,
    "QLinearWhere": _where,
    "QuantizeLinear": _quantize,
    "Rfft": _rfft,
    "SimplifiedLayerNormalization": _norm,
}
