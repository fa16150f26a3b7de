"""Result shapes of ONNX Runtime's own operators (domain com.microsoft): a function per family of operators."""

from __future__ import annotations

from collections.abc import Sequence

from onnx import NodeProto

from simdevice.frontends.onnx.nodes import attribute
from simdevice.frontends.onnx.operators.base import (
    Results,
    Shape,
    broadcast,
    dtype_at,
    pooled,
    shape_at,
    value_at,
    windows,
)
from simdevice.frontends.onnx.values import Value, number_of

__all__ = [
    "attention",
    "blob_product",
    "concat",
    "decoder_attention",
    "dequantize",
    "distances",
    "embedded_norm",
    "gathered_blocks",
    "group_query_attention",
    "irfft",
    "linear_attention",
    "lstm",
    "multi_head_attention",
    "nhwc_convolution",
    "nhwc_pool",
    "norm",
    "packed_product",
    "product",
    "quantize",
    "quantized_convolution",
    "quantized_gemm",
    "quantized_pool",
    "rfft",
    "same",
    "skip_norm",
    "split_gate",
    "to_float",
    "where",
]


def same(node: NodeProto, inputs: Sequence[Value | None]) -> Results:
    return [(shape_at(inputs), dtype_at(inputs))]


def skip_norm(node: NodeProto, inputs: Sequence[Value | None]) -> Results:
    """The normalised sum, a mean, a deviation, the sum itself."""
    shape = shape_at(inputs)
    small = (*shape[:-1], 1)
    return [(shape, dtype_at(inputs)), (small, "float32"), (small, "float32"), (shape, dtype_at(inputs))]


def norm(node: NodeProto, inputs: Sequence[Value | None]) -> Results:
    shape = shape_at(inputs)
    axis = attribute(node, "axis", -1) % max(len(shape), 1)
    return [(shape, dtype_at(inputs)), (shape[:axis] + (1,) * (len(shape) - axis), "float32")]


def product(node: NodeProto, inputs: Sequence[Value | None], right: int = 1, dtype: str = "") -> Results:
    left = _operand(node, shape_at(inputs), "A")
    other = _operand(node, shape_at(inputs, right), "B")
    batch = broadcast(left[:-2], other[:-2])
    return [((*batch, *left[-2:-1], *other[-1:]), dtype or dtype_at(inputs))]


def _operand(node: NodeProto, shape: Shape, side: str) -> Shape:
    """As it is multiplied: `transBatch` puts the first dimension after the others but the last, `trans` swaps two."""
    if attribute(node, f"transBatch{side}", 0):
        shape = (*shape[1:-1], shape[0], shape[-1])
    return (*shape[:-2], shape[-1], shape[-2]) if attribute(node, f"trans{side}", 0) else shape


def quantized_gemm(node: NodeProto, inputs: Sequence[Value | None]) -> Results:
    """A first, B fourth; without a zero point for it (the ninth) the result is a float."""
    zero_point = value_at(inputs, 8)
    return product(node, inputs, right=3, dtype=zero_point.dtype if zero_point is not None else "float32")


def where(node: NodeProto, inputs: Sequence[Value | None]) -> Results:
    """The condition, X with its scale and zero point, Y."""
    shape = broadcast(shape_at(inputs), broadcast(shape_at(inputs, 1), shape_at(inputs, 4)))
    return [(shape, dtype_at(inputs, 1))]


def packed_product(node: NodeProto, inputs: Sequence[Value | None]) -> Results:
    return [((*shape_at(inputs)[:-1], int(attribute(node, "N"))), dtype_at(inputs))]


def to_float(node: NodeProto, inputs: Sequence[Value | None]) -> Results:
    return product(node, inputs, dtype="float32")


def attention(node: NodeProto, inputs: Sequence[Value | None]) -> Results:
    """input (batch, length, K), weights (K, 3 * width); a buffer that past and present share keeps its length."""
    batch, length, _ = shape_at(inputs)
    width = shape_at(inputs, 1)[-1] // 3
    sizes = attribute(node, "qkv_hidden_sizes")
    dtype = "float32" if node.op_type == "QAttention" else dtype_at(inputs)
    results: Results = [((batch, length, sizes[2] if sizes else width), dtype)]
    heads = int(attribute(node, "num_heads", 1))
    past = value_at(inputs, 8 if node.op_type == "QAttention" else 4)
    return [*results, ((2, batch, heads, _present(node, past, 3, length), width // heads), dtype)]


def _present(node: NodeProto, past: Value | None, axis: int, length: int) -> int:
    """Keys of a cache and new ones."""
    cached = past.shape[axis] if past is not None and past.shape else 0
    return cached if cached and attribute(node, "past_present_share_buffer", 0) else cached + length


def decoder_attention(node: NodeProto, inputs: Sequence[Value | None]) -> Results:
    """query (batch, 1, width), or packed with key and value; a cross attention's keys (batch, heads, length, width)."""
    batch, length, wide = shape_at(inputs)
    heads = int(attribute(node, "num_heads", 1))
    key, value, past = value_at(inputs, 1), value_at(inputs, 2), value_at(inputs, 5)
    dtype = dtype_at(inputs)
    if key is None:
        past_value = value_at(inputs, 6)
        value_wide = heads * past_value.shape[-1] if past_value is not None and past_value.shape else wide // 3
        width = (wide - value_wide) // 2 // heads
    else:
        values = value.shape if value is not None and value.shape else shape_at(inputs, 1)
        value_wide = values[1] * values[3] if len(values) == 4 else values[-1]
        width = wide // heads
    keys = shape_at(inputs, 1)[2] if key is not None and len(shape_at(inputs, 1)) == 4 else None
    total = keys if keys is not None else _present(node, past, 2, length)
    present, scores = ((batch, heads, total, width), dtype), ((batch, heads, length, total), dtype)
    return [((batch, length, value_wide), dtype), present, ((batch, heads, total, value_wide // heads), dtype), scores]


def linear_attention(node: NodeProto, inputs: Sequence[Value | None]) -> Results:
    """query (batch, steps, heads * d), value (batch, steps, kv heads * dv); states of a window of steps."""
    batch, steps, wide = shape_at(inputs)
    heads, kv_heads = int(attribute(node, "q_num_heads")), int(attribute(node, "kv_num_heads"))
    width, value_width = wide // heads, shape_at(inputs, 2)[-1] // kv_heads
    past = value_at(inputs, 3)
    state = (batch, kv_heads, width, value_width)
    window = int(attribute(node, "state_window", 0))
    kept = ((window, *state) if window else state, past.dtype if past is not None else dtype_at(inputs))
    return [((batch, steps, max(heads, kv_heads) * value_width), dtype_at(inputs)), kept]


def blob_product(node: NodeProto, inputs: Sequence[Value | None]) -> Results:
    """B's own shape (K, N) is the third input's contents."""
    shape = value_at(inputs, 2)
    if shape is None or shape.data is None:
        raise LookupError(2)
    return [((*shape_at(inputs)[:-1], int(shape.data[-1])), dtype_at(inputs))]


def multi_head_attention(node: NodeProto, inputs: Sequence[Value | None]) -> Results:
    query, value = shape_at(inputs), value_at(inputs, 2)
    heads = int(attribute(node, "num_heads", 1))
    if len(query) == 5:
        batch, length, _, _, width = query
        return [((batch, length, heads * width), dtype_at(inputs))]
    wide = query[-1]
    if value is not None and value.shape is not None:
        wide = value.shape[-1] if len(value.shape) == 3 else value.shape[1] * value.shape[-1]
    results: Results = [((*query[:2], wide), dtype_at(inputs))]
    past, key = value_at(inputs, 6), value_at(inputs, 1)
    keys = query[1]
    if key is not None and key.shape is not None:
        keys = key.shape[1] if len(key.shape) == 3 else key.shape[2]
    before = past.shape[2] if past is not None and past.shape else 0
    present = ((query[0], heads, before + keys, wide // heads), dtype_at(inputs))
    return [*results, present, present]


def group_query_attention(node: NodeProto, inputs: Sequence[Value | None]) -> Results:
    """Present is as long as past and new keys together, or as the past where both share a buffer: as long as
    total_sequence_length and not shorter than past (onnxruntime/contrib_ops/cpu/bert/group_query_attention_helper.h).
    Without it a bound: as long as the past or the new keys."""
    batch, length, wide = shape_at(inputs)
    heads = int(attribute(node, "num_heads", 1))
    kv_heads = int(attribute(node, "kv_num_heads", heads))
    packed = value_at(inputs, 1) is None
    width = wide // (heads + 2 * kv_heads) if packed else wide // heads
    past, total = value_at(inputs, 3), number_of(value_at(inputs, 6))
    cached = past.shape[2] if past is not None and past.shape else 0
    dtype = past.dtype if past is not None else dtype_at(inputs)
    present = ((batch, kv_heads, max(total or length, cached), width), dtype)
    return [((batch, length, heads * width), dtype_at(inputs)), present, present]


def embedded_norm(node: NodeProto, inputs: Sequence[Value | None]) -> Results:
    """input_ids (batch, length), segment_ids, word table (words, width)."""
    ids, table = shape_at(inputs), shape_at(inputs, 2)
    result = ((*ids, table[-1]), dtype_at(inputs, 2))
    return [result, ((ids[0],), "int32"), result]


def lstm(node: NodeProto, inputs: Sequence[Value | None]) -> Results:
    """X (steps, batch, features); R (directions, units, 4 * units)."""
    steps, batch, _ = shape_at(inputs)
    directions, units = shape_at(inputs, 2)[0], int(attribute(node, "hidden_size"))
    state = ((directions, batch, units), "float32")
    return [((steps, directions, batch, units), "float32"), state, state]


def quantize(node: NodeProto, inputs: Sequence[Value | None]) -> Results:
    zero_point = value_at(inputs, 2)
    return [(shape_at(inputs), zero_point.dtype if zero_point is not None else "uint8")]


def dequantize(node: NodeProto, inputs: Sequence[Value | None]) -> Results:
    return [(shape_at(inputs), dtype_at(inputs, 1))]


def concat(node: NodeProto, inputs: Sequence[Value | None]) -> Results:
    """Y_scale, Y_zero_point, then tensor, scale and zero point of each part."""
    parts = [shape_at(inputs, i) for i in range(2, len(inputs), 3)]
    axis = attribute(node, "axis", 0) % len(parts[0])
    length = sum(p[axis] for p in parts)
    return [((*parts[0][:axis], length, *parts[0][axis + 1 :]), dtype_at(inputs, 2))]


def split_gate(node: NodeProto, inputs: Sequence[Value | None]) -> Results:
    *rest, wide = shape_at(inputs)
    return [((*rest, wide // 2), dtype_at(inputs))]


def distances(node: NodeProto, inputs: Sequence[Value | None]) -> Results:
    return [((shape_at(inputs)[0], shape_at(inputs, 1)[0]), dtype_at(inputs))]


def rfft(node: NodeProto, inputs: Sequence[Value | None]) -> Results:
    *rest, length = shape_at(inputs)
    return [((*rest, length // 2 + 1, 2), dtype_at(inputs))]


def irfft(node: NodeProto, inputs: Sequence[Value | None]) -> Results:
    *rest, bins, _ = shape_at(inputs)
    return [((*rest, 2 * (bins - 1)), dtype_at(inputs))]


def nhwc_convolution(node: NodeProto, inputs: Sequence[Value | None]) -> Results:
    """X (N, *spatial, C), W (M, *kernel, C / groups)."""
    batch, *spatial, _ = shape_at(inputs)
    weight = shape_at(inputs, 1)
    return [((batch, *windows(node, spatial, weight[1:-1]), weight[0]), dtype_at(inputs))]


def quantized_convolution(node: NodeProto, inputs: Sequence[Value | None]) -> Results:
    """X and W first and fourth; `channels_last` moves the channels of X and Y only."""
    source, weight = shape_at(inputs), shape_at(inputs, 3)
    zero_point = value_at(inputs, 7)
    dtype = zero_point.dtype if zero_point is not None else dtype_at(inputs)
    if attribute(node, "channels_last", 0):
        return [((source[0], *windows(node, source[1:-1], weight[2:]), weight[0]), dtype)]
    return [((source[0], weight[0], *windows(node, source[2:], weight[2:])), dtype)]


def nhwc_pool(node: NodeProto, inputs: Sequence[Value | None]) -> Results:
    return [(pooled(node, shape_at(inputs), channels_last=True), dtype_at(inputs))]


def quantized_pool(node: NodeProto, inputs: Sequence[Value | None]) -> Results:
    return [(pooled(node, shape_at(inputs), channels_last=bool(attribute(node, "channels_last", 0))), dtype_at(inputs))]


def gathered_blocks(node: NodeProto, inputs: Sequence[Value | None]) -> Results:
    table, indices = shape_at(inputs), shape_at(inputs, 1)
    axis = attribute(node, "gather_axis", 0) % len(table)
    return [((*table[:axis], *indices, *table[axis + 1 :]), dtype_at(inputs, 2))]
