"""Hypothesis strategies: traces of random operators over a few storages."""

from __future__ import annotations

from hypothesis import strategies as st

from simdevice.records import CATEGORIES, Cost, OpTable, Origin, Signature, TensorSpec, Trace, TraceBuilder

specs = st.builds(
    TensorSpec,
    st.lists(st.integers(0, 5), max_size=3).map(tuple),
    st.sampled_from(["float32", "bfloat16", "int4", "bool"]),
    st.booleans(),
)
attributes = st.sampled_from(
    [(), (("dim", (0, 1)),), (("eps", 1e-5), ("mask", None), ("kind", "same"), ("flip", True))]
)
signatures = st.builds(
    Signature,
    st.sampled_from(["aten.mm", "aten.add_", "onnx.MatMul", "fhe.ntt"]),
    st.lists(specs, max_size=3).map(tuple),
    st.lists(specs, max_size=2).map(tuple),
    attributes,
)
counts = st.integers(0, 2**40)
costs = st.builds(
    Cost, st.sampled_from(CATEGORIES), st.none() | counts, counts, counts, counts, st.none() | st.text(max_size=5)
)
origins = st.builds(
    Origin,
    st.sampled_from(["dispatch", "onnx"]),
    st.just("meta"),
    st.text(max_size=8),
    versions=st.sampled_from([(), (("torch", "2.13.0"), ("python", "3.11.7"))]),
    capture_s=st.floats(0, 10),
    flop_counter=st.none() | counts,
    notes=st.sampled_from([(), ("a note",)]),
)


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """Up to twelve calls of up to four distinct signatures, under scopes of which some stay unused."""
    known = draw(st.lists(signatures, min_size=1, max_size=4, unique=True))
    prices = {signature: draw(costs) for signature in known}
    builder = TraceBuilder(OpTable(prices.__getitem__))
    for path in draw(st.lists(st.sampled_from(["", "a", "a.b", "c"]), unique=True)):
        builder.scope(path)
    for signature in draw(st.lists(st.sampled_from(known), max_size=12)):
        ids = [draw(st.integers(-1, 6)) for _ in range(signature.arity)]
        scope = builder.scope(draw(st.sampled_from(["", "a", "a.b"])))
        builder.add(signature, ids, phase=draw(st.integers(0, 2)), scope=scope)
    return builder.finish(draw(origins))
