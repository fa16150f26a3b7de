"""Hypothesis strategies: traces of operators of every kind, with views, transfers, events and synchronisation."""

from __future__ import annotations

from hypothesis import strategies as st

from simdevice.costs import Costs
from simdevice.hardware import AcceleratorSpec, load
from simdevice.records import OpTable, Origin, Signature, TensorSpec, Trace, TraceBuilder

EVENT = TensorSpec((0,), "uint8")
STORAGES = 6

dims = st.integers(1, 40)
dtypes = st.sampled_from(["float32", "bfloat16", "int8", "int4"])


def tensor(*shape: int, dtype: str = "float32", is_weight: bool = False) -> TensorSpec:
    return TensorSpec(shape, dtype, is_weight)


@st.composite
def signatures(draw: st.DrawFn) -> Signature:
    """Any operator whose lowering differs from another's."""
    kind = draw(
        st.sampled_from(["mm", "bmm", "addmm", "conv", "sdpa", "sdpa_backward", "add", "ntt", "view", "copy", "odd"])
    )
    m, k, n, b = (draw(dims) for _ in range(4))
    dtype = draw(dtypes)

    def of(*shape: int) -> TensorSpec:
        return tensor(*shape, dtype=dtype)

    if kind == "mm":
        return Signature("aten.mm", (of(m, k), tensor(k, n, dtype=draw(dtypes), is_weight=True)), (of(m, n),))
    if kind == "bmm":
        return Signature("aten.bmm", (of(b, m, k), of(b, k, n)), (of(b, m, n),))
    if kind == "addmm":
        return Signature("aten.addmm", (of(n), of(m, k), of(k, n)), (of(m, n),))
    if kind == "conv":
        groups = draw(st.sampled_from([1, 2]))
        weight = tensor(2 * n, k, 3, 3, dtype=dtype, is_weight=True)
        attributes = (("transposed", False), ("groups", groups))
        return Signature("aten.convolution", (of(1, k * groups, m, m), weight), (of(1, 2 * n, m, m),), attributes)
    if kind.startswith("sdpa"):
        query, key = of(1, 2, m, k), of(1, 2, n, k)
        if kind == "sdpa":
            return Signature("aten.scaled_dot_product_attention", (query, key, key), (query,))
        name = "aten._scaled_dot_product_efficient_attention_backward"
        return Signature(name, (query, query, key, key), (query, key, key))
    if kind == "ntt":
        ring = 2 ** draw(st.integers(1, 8))
        return Signature("fhe.ntt", (tensor(ring, dtype="uint64"),), (tensor(ring, dtype="uint64"),))
    if kind == "view":
        return Signature("aten.view", (of(m, k),), (of(m * k),))
    if kind == "copy":
        return Signature("simacc.copy_to_device", (), (of(m, n),))
    if kind == "odd":
        return Signature("custom.odd", (of(m, n),), (of(m),))  # without a rule
    return Signature("aten.add", (of(m, n), of(m, n)), (of(m, n),))


order_rows = st.one_of(
    st.just((Signature("simacc.synchronize", (), ()), ())),
    st.tuples(
        st.sampled_from(["record_event", "wait_event", "synchronize_event"]).map(
            lambda kind: Signature(f"simacc.{kind}", (EVENT,), ())
        ),
        st.tuples(st.integers(100, 102)),
    ),
)


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """A program over a few storages, in which some signatures repeat."""
    known = draw(st.lists(signatures(), min_size=1, max_size=6))
    builder = TraceBuilder(OpTable(Costs()))
    for _ in range(draw(st.integers(0, 25))):
        if draw(st.integers(0, 4)) == 0:
            signature, ids = draw(order_rows)
        else:
            signature = draw(st.sampled_from(known))
            ids = tuple(draw(st.integers(-1, STORAGES - 1)) for _ in range(signature.arity))
        builder.add(signature, ids)
    return builder.finish(Origin("random"))


@st.composite
def machines(draw: st.DrawFn) -> AcceleratorSpec:
    """An accelerator with odd numbers everywhere."""
    spec = load(
        "edge-npu",
        buffer_bytes=draw(st.integers(600, 20_000)),
        tile_fraction=draw(st.sampled_from(["0.5", "0.3", "1"])),
        dram_channels=draw(st.integers(1, 3)),
        dram_bandwidth_bytes_per_s=draw(st.sampled_from(["25.6 GB/s", "7.3 GB/s", "1 GB/s"])),
        clock_hz=draw(st.sampled_from(["1 GHz", "700 MHz", "1.3 GHz"])),
        vector_lanes=draw(st.integers(1, 70)),
        array_rows=draw(st.integers(1, 40)),
        transit_ops_per_byte=draw(st.sampled_from([0, "1.6 OP/B", 3])),
        quantise=draw(st.booleans()),
        launch_overhead_s=draw(st.sampled_from([0, "30 ns"])),
    )
    assert isinstance(spec, AcceleratorSpec)
    return spec
