from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest
import torch

import simdevice as sd
from simdevice.costs import Costs, streamed
from simdevice.devices.offload import Offload
from simdevice.frontends import Workload
from simdevice.records import Cost, OpTable, Origin, Run, Signature, TensorSpec, Trace, TraceBuilder
from simdevice.report.coverage import Coverage, Part, Side, coverage

X = TensorSpec((4, 4), "float32")
MM, ADD, VIEW = Signature("aten.mm", (X, X), (X,)), Signature("aten.add", (X, X), (X,)), Signature("aten.t", (X,), (X,))
SORT, ODD = Signature("aten.sort", (X,), (X,), (("dim", 1),)), Signature("mine.odd", (X,), (X,))


def made(*calls: tuple[Signature, tuple[int, ...]], origin: Origin | None = None) -> Trace:
    builder = TraceBuilder(OpTable(Costs()))
    for signature, ids in calls:
        builder.add(signature, ids)
    return builder.finish(origin or Origin("hand"))


PROGRAM = (MM, (0, 1, 2)), (VIEW, (2, 2)), (ADD, (2, 2, 3)), (SORT, (3, 4)), (ODD, (4, 5))


def part(found: Coverage, name: str) -> Part:
    return next(p for p in (*found.rules, *found.sides) if p.name.startswith(name))


def side(found: Coverage, name: str) -> Side:
    return next(s for s in found.sides if s.name.startswith(name))


def test_operators_are_split_by_what_is_known_of_their_cost() -> None:
    found = coverage(sd.device("h100").run(made(*PROGRAM)))
    assert [(p.name, p.operators) for p in found.rules] == [
        ("a cost rule", 2),
        ("a cost rule that is customary or an estimate", 1),
        ("no known cost", 1),
        ("free: views, synchronisation", 1),
    ]
    # 4 operators that work; 2 x 4^3 + 4^2 FLOPs, and 16 x ceil(log2 4) comparisons
    known = part(found, "a cost rule")
    assert (known.of_operators, known.flops) == (2 / 4, 128 + 16)
    assert known.of_flops == (128 + 16) / (128 + 16 + 32)
    # 64 bytes each: 3 + 3 of 6 + 2 + 2
    assert (known.moved_bytes, known.of_bytes) == (6 * 64, 6 / 10)
    assert known.time_s == pytest.approx(known.of_time * found_time(found))


def found_time(found: Coverage) -> float:
    return sum(p.time_s for p in found.rules)


def test_the_shares_of_a_split_add_up() -> None:
    run = Offload("optical", ["matmul"]).run(made(*PROGRAM))
    found = coverage(run)
    for parts in (found.rules, found.sides, found.categories):
        for name in ("of_flops", "of_bytes", "of_time"):
            assert sum(getattr(p, name) for p in parts) == pytest.approx(1)
    assert sum(p.time_s for p in found.sides) == pytest.approx(run.time_s)


def test_an_unknown_operator_is_named_with_its_reason() -> None:
    found = coverage(sd.device("h100").run(made(*PROGRAM)))
    (unknown,) = found.unknown
    assert (unknown.name, unknown.calls, unknown.reason) == ("mine.odd", 1, "no cost rule")
    assert part(found, "no known cost").is_lower_bound
    assert "| mine.odd | 1 |" in found.to_markdown()


def test_a_device_without_a_host_has_no_sides() -> None:
    found = coverage(sd.device("h100").run(made(*PROGRAM)))
    assert found.sides == ()
    assert "Device and host" not in found.to_markdown()


def test_each_category_says_where_it_runs() -> None:
    run = Offload("optical", ["aten.mm"]).run(made(*PROGRAM, (Signature("aten.bmm", MM.inputs, MM.outputs), (5, 5, 6))))
    where = {row.name: row.where for row in coverage(run).categories}
    assert where == {"matmul": "both", "elementwise": "host", "sort": "host", "unknown": "host"}


def test_a_copy_that_was_asked_for_is_of_the_link() -> None:
    run = Offload("optical", ["matmul"]).run(made((MM, (0, 1, 2)), (Signature("simacc.copy_to_host", (X,), ()), (2,))))
    link = side(coverage(run), "crossing")
    # 5 us + 64 bytes / 64 GB/s
    assert (link.operators, link.moved_bytes, link.time_s) == (1, 64, 5.001e-6)
    assert (link.crossings, link.crossed_bytes) == (1, 64)


def test_crossings_nobody_asked_for_are_counted_beside_their_time() -> None:
    # the product's result to the host for the addition, and the last one's operand (made there) back to the device
    found = coverage(Offload("optical", ["matmul"]).run(made(*PROGRAM, (MM, (5, 1, 6)))))
    link = side(found, "crossing")
    assert (link.operators, link.moved_bytes) == (0, 0)
    assert (link.crossings, link.crossed_bytes, link.time_s) == (2, 128, 2 * 5.001e-6)
    assert [(s.crossings, s.crossed_bytes) for s in found.sides[:2]] == [(None, None)] * 2
    heading, _, *rows = found.to_markdown().split("## Device and host\n\n")[1].splitlines()[:5]
    assert [line.split(" | ", 8)[-1] for line in (heading, *rows)] == [
        "of time | crossings | bytes crossed |",
        *(f"{s.of_time:.1%} | - | - |" for s in found.sides[:2]),
        f"{link.of_time:.1%} | 2 | 128 B |",
    ]
    assert json.loads(found.to_json())["sides"][2]["crossed_bytes"] == 128


def test_flop_counter_mode_stands_beside_and_the_difference_is_explained() -> None:
    linear = torch.nn.Linear(8, 4)
    found = coverage(sd.device("h100").run(sd.trace(linear, torch.ones(2, 8), flop_counter=True)))
    # 2 x 2 x 8 x 4, and a bias for each of 2 x 4
    assert (found.flop_counter, found.products) == (128, 136)
    assert "(+8)" in found.to_markdown()
    same = coverage(sd.device("h100").run(sd.trace(torch.mm, torch.ones(2, 2), torch.ones(2, 2), flop_counter=True)))
    assert "here the same." in same.to_markdown()
    assert "FlopCounterMode" not in coverage(sd.device("h100").run(made(*PROGRAM))).to_markdown()


def test_json_holds_the_tables_unrounded() -> None:
    found = coverage(Offload("optical", ["matmul"]).run(made(*PROGRAM)))
    data = json.loads(found.to_json())
    assert [p["name"] for p in data["sides"]] == ["on the device", "on the host", "crossing the link"]
    assert data["sides"][0]["of_time"] == part(found, "on the device").of_time
    assert data["unknown"][0]["reason"] == "no cost rule"


def test_an_empty_trace_has_a_coverage() -> None:
    found = coverage(sd.device("h100").run(made()))
    assert (found.rules, found.categories, found.unknown) == ((), (), ())
    assert found.to_markdown() == "# Coverage of a program on h100\n"


def test_rules_given_by_argument_count() -> None:
    def rule(signature: Signature) -> Cost:
        return streamed(signature, "elementwise", 16)

    builder = TraceBuilder(OpTable(Costs({"mine.odd": rule})))
    builder.add(ODD, (0, 1))
    assert coverage(sd.device("h100").run(builder.finish(Origin("hand")))).unknown == ()


@cache
def prefill() -> Trace:
    inputs: dict[str, Any] = {"input_ids": sd.models.tokens(1, 2048), "use_cache": False}
    return sd.trace(Workload(sd.models.build("llama3-8b"), (), inputs), attention="fused", flop_counter=True)


def covered(*claims: str) -> tuple[float, float]:
    """Per cent of FLOPs and of time on the device."""
    run: Run = Offload("optical", claims, link="pcie5-x16").run(prefill())
    device = part(coverage(run), "on the device")
    return round(100 * device.of_flops, 2), round(100 * device.of_time, 1)


def test_most_flops_on_the_device_are_not_most_of_the_time() -> None:
    # Torch_Sim_Frontend, examples/results.md, section 6: 93.25 % of FLOPs and 1.3 % of time, then 99.98 and 4.8 %,
    # then 100 and 10.9 %. Its views crossed by themselves, ours do not, so the device's share of the time is larger.
    assert covered("matmul") == (93.25, 1.3)
    assert covered("matmul", "attention") == (99.98, 5.2)
    assert covered("matmul", "attention", "elementwise") == (100.0, 11.3)


def test_flop_counter_mode_drops_fused_attention() -> None:
    found = coverage(sd.device("h100").run(prefill()))
    # Torch_Sim_Frontend, examples/results.md, section 7; 262,144 less each: the rotary product is a product no more
    assert found.flop_counter == 30_739_081_199_616 - 262_144
    assert found.products - found.flop_counter == 2_220_498_092_032
