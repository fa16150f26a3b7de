"""Published roofline sums of Llama-3-8B on an H100 (Torch_Sim_Frontend, examples/results.md section 5)."""

from __future__ import annotations

import pytest

import simdevice as sd
from simdevice.records import Run, Trace


def milliseconds(trace: Trace, *, fused: bool) -> float:
    return round(sd.device("published/h100", fused=fused).run(trace).time_s * 1e3, 2)


@pytest.mark.parametrize(
    ("request_", "unfused", "fused"),
    [
        ({"tokens": 2048}, 126.68, 71.01),
        ({"decode": 2048}, 9.34, 6.41),
        ({"decode": 2048, "attention": "fused"}, 5.91, 5.70),
    ],
)
def test_streams_that_are_the_published_ones_cost_what_was_published(
    request_: dict[str, int | str], unfused: float, fused: float
) -> None:
    trace = sd.trace("llama3-8b", **request_, scopes=False)  # type: ignore[arg-type]
    assert (milliseconds(trace, fused=False), milliseconds(trace, fused=True)) == (unfused, fused)


def test_the_meta_prefill_spends_the_published_share_in_compute_bound_operators() -> None:
    run: Run = sd.device("published/h100").run(sd.trace("llama3-8b", tokens=2048, scopes=False))
    assert run.bound is not None
    busy = run.busy_ps[run.bound == run.bound_names.index("compute")].sum()
    assert round(busy / run.busy_ps.sum(), 3) == 0.446


def test_the_published_fused_prefill_has_its_cache_off() -> None:
    """76.14 ms, 70.09 GB and the fused bound of 60.62, to the digit. (The 4,577 published operators count 1,814
    questions, `prim.device`, which are no rows here.)"""
    program = sd.models.build("llama3-8b")
    inputs = {"input_ids": sd.models.tokens(1, 2048), "use_cache": False}
    trace = sd.trace(program, attention="fused", kwargs=inputs, scopes=False)
    assert (milliseconds(trace, fused=False), milliseconds(trace, fused=True)) == (76.14, 60.62)
    assert round(trace.bytes / 1e9, 2) == 70.09


def test_with_its_cache_the_fused_prefill_is_faster_by_the_copies_that_are_gone() -> None:
    """With a cache transformers hands 8 key-value heads to the fused operator instead of copying them into 32, and
    makes no mask: 29.40 GB elementwise and 10.04 GB of copies become 28.97 and 8.43."""
    trace = sd.trace("llama3-8b", tokens=2048, attention="fused", scopes=False)
    assert milliseconds(trace, fused=True) == 60.62
    gigabytes = {
        category: sum(op.bytes for op in trace.ops if op.category == category) / 1e9
        for category in ("elementwise", "movement")
    }
    assert {name: round(value, 2) for name, value in gigabytes.items()} == {"elementwise": 28.97, "movement": 8.43}
    gone = (29.40 - gigabytes["elementwise"]) + (10.04 - gigabytes["movement"])
    assert milliseconds(trace, fused=False) == pytest.approx(76.14 - gone / (3350 * 0.80) * 1e3, abs=0.01)
