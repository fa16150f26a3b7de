from __future__ import annotations

from hypothesis import given
from trace_strategies import traces

from simdevice.analysis.diff import OperatorDelta, Totals, diff
from simdevice.records import Cost, OpTable, Origin, Signature, TensorSpec, Trace, TraceBuilder

X = TensorSpec((2, 2), "float32")
MM = Signature("aten.mm", (X, X), (X,))
ADD = Signature("aten.add", (X, X), (X,))
ODD = Signature("aten.odd", (X,), (X,))

COSTS = {MM: Cost("matmul", 16, 32, 16, 16), ADD: Cost("elementwise", 4, 32, 16), ODD: Cost("unknown", None, 16, 16)}


def build(*signatures: Signature, torch: str = "2.13.0") -> Trace:
    builder = TraceBuilder(OpTable(COSTS.__getitem__))
    for signature in signatures:
        builder.add(signature, range(signature.arity))
    return builder.finish(Origin("test", versions=(("torch", torch),)))


def test_a_trace_does_not_differ_from_itself() -> None:
    found = diff(build(MM, ADD), build(MM, ADD))
    assert found.same_stream
    assert found.same_arithmetic
    assert found.operators == found.signatures == found.versions == ()
    assert found.before == found.after == Totals(2, 20, 64, 32, 16)


def test_changed_operators_are_named_with_both_totals() -> None:
    found = diff(build(MM, ADD, ADD), build(MM, ADD, MM, torch="2.14.0"))
    # two additions become one and one product becomes two: 4 FLOPs fewer, 16 more, one more weight read
    assert (found.before.flops, found.after.flops) == (24, 36)
    assert found.operators == (
        OperatorDelta("aten.add", Totals(2, 8, 64, 32), Totals(1, 4, 32, 16)),
        OperatorDelta("aten.mm", Totals(1, 16, 32, 16, 16), Totals(2, 32, 64, 32, 32)),
    )
    assert found.signatures == ((ADD, -1), (MM, 1))
    assert found.first_difference == 2
    assert not found.same_arithmetic
    assert found.versions == (("torch", "2.13.0", "2.14.0"),)


def test_an_operator_on_one_side_only_has_zeros_on_the_other() -> None:
    (delta,) = diff(build(MM), build(MM, ODD)).operators
    assert delta == OperatorDelta("aten.odd", Totals(), Totals(1, 0, 16, 16, 0, unknown=1))


def test_reordering_keeps_the_arithmetic_but_not_the_stream() -> None:
    found = diff(build(MM, ADD), build(ADD, MM))
    assert found.same_arithmetic
    assert found.first_difference == 0
    assert found.operators == ()


def test_the_same_operators_on_other_devices_are_another_stream() -> None:
    def on(*devices: int) -> Trace:
        builder = TraceBuilder(OpTable(COSTS.__getitem__))
        for device in devices:
            builder.add(MM, range(MM.arity), device=device)
        return builder.finish(Origin("test"))

    assert diff(on(0, 1), on(0, 1)).same_stream
    found = diff(on(0, 0), on(0, 1))
    assert found.first_difference == 1
    assert found.same_arithmetic
    assert found.operators == ()


def test_a_longer_stream_first_differs_where_the_shorter_ends() -> None:
    assert diff(build(MM), build(MM, ADD)).first_difference == 1


@given(traces(), traces())
def test_operator_deltas_add_up_to_the_totals(before: Trace, after: Trace) -> None:
    found = diff(before, after)
    for name in Totals.__dataclass_fields__:
        change = sum(getattr(d.after, name) - getattr(d.before, name) for d in found.operators)
        assert change == getattr(found.after, name) - getattr(found.before, name)
    assert sum(n for _, n in found.signatures) == len(after) - len(before)
