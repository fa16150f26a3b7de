"""A few seconds of `make conformance`, and what it would say of a device that is wrong."""

from __future__ import annotations

import sys

import pytest
import torch

pytest.importorskip("expecttest", reason="PyTorch's databases import it: pip install expecttest")

from conformance import cases as cases_of
from conformance.compare import difference, sharing
from conformance.page import Results, page
from conformance.reasons import REASONS, reason_for
from conformance.run import Worker
from conformance.twins import Twins
from conformance.worker import outcomes

pytestmark = pytest.mark.filterwarnings("ignore")  # operators warn about their own deprecated or slow paths

EVERY = 401  # a prime, so that all kinds and types are met: 46 cases


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_a_shard_of_all_databases_passes():
    results = Results()
    for number in range(0, len(cases_of.cases()), EVERY):
        for what, words in outcomes(number, 0, most=2):
            if what != "start":
                results.add(number, what, words)
    assert results.of(None, "differs", "raised") == 0, results.others
    assert results.possible() > 60
    assert {kind for kind, _ in results.counts} >= {"forward", "in place", "out", "gradients", "forward mode", "module"}


def test_the_databases_are_large_enough_and_the_reasons_few():
    forward = [c for c in cases_of.cases() if c.kind == "forward"]
    assert len(forward) * cases_of.SAMPLES["forward"] > 40_000  # of at most so many; 20,000 are asked for
    assert len({c.dtype for c in forward}) >= 12
    assert len(REASONS) <= 30


WRONG = {
    "1 of 3 values": (torch.ones(3), torch.tensor([1, 1, 1 + 2**-23])),
    "dtype torch.float32 against torch.float64": (torch.ones(3), torch.ones(3, dtype=torch.float64)),
    "shape (3,) against (3, 1)": (torch.ones(3), torch.ones(3, 1)),
    "strides (2, 1) against (1, 2)": (torch.ones(2, 2), torch.ones(2, 2).t()),
    "2 of 2 values": (torch.zeros(2), -torch.zeros(2)),  # bits, not numbers
}


@pytest.mark.parametrize("words", WRONG)
def test_what_differs_is_seen(words):
    expected, actual = WRONG[words]
    assert difference(expected, actual) == words
    assert difference(expected, expected.clone()) is None


def test_any_nan_is_any_other():
    quiet, other = (torch.tensor([bits]).view(torch.float32) for bits in (0x7FC00000, 0x7FC00001))
    assert difference(quiet, other) is None


def test_sharing_tells_views_copies_and_the_argument_itself():
    x = torch.ones(4)
    same, view, copied = (sharing([t], [x])[0] for t in (x, x[1:], x.clone()))
    assert same[:3] == ("argument 0", "argument 0", 0)
    assert view[:3] == (None, "argument 0", 1)
    assert copied[:3] == (None, "result 0", 0)


def test_twins_have_the_samples_layout_and_share_what_it_shares():
    base = torch.arange(12.0)
    pair = [base.as_strided((2, 2), (1, 5), 1), base[3:]]
    one, other = Twins("simacc").of(pair)
    assert (one.stride(), one.storage_offset(), one.device.type) == ((1, 5), 1, "simacc")
    other.zero_()
    assert one.cpu().tolist() == [[1, 0], [2, 0]]
    assert base[3] == 3


def test_aborts_and_failures_do_not_conform_and_are_on_the_page():
    results = Results()
    for _ in range(999):
        results.add(0, "passed", None)
    results.add(0, "refused", "the CPU raises")
    assert results.conforms()
    results.add(0, "differs", "1 of 3 values")
    assert results.conforms()  # 999 of 1,000
    results.add(0, "aborted", "exit code -6: terminate called")
    assert not results.conforms()
    text = page(results, 2)
    assert "999 of 1001 samples that the CPU passes (99.800 %), 0 explained, 1 failures, 1 aborts" in text
    assert f"- {cases_of.cases()[0]}: aborted: exit code -6: terminate called" in text


def test_a_reason_covers_its_own_words_only():
    case = next(c for c in cases_of.cases() if c.name == "to_sparse")
    assert reason_for(case, "NotImplementedError: simacc has no sparse tensors, which") is REASONS[0]
    assert reason_for(case, "1 of 3 values") is None


def test_an_abort_is_counted_and_the_case_goes_on(tmp_path):
    """The second of three samples kills its worker."""
    (tmp_path / "worker.py").write_text(
        """
import json, os, sys
for line in sys.stdin:
    number, first = map(int, line.split())
    for sample in range(first, 3):
        print(json.dumps(["start", None]), flush=True)
        if sample == 1:
            print("terminate called", file=sys.stderr, flush=True)
            os.abort()
        print(json.dumps(["passed", None]), flush=True)
    print(json.dumps(["end", None]), flush=True)
"""
    )
    results = Results()
    worker = Worker([sys.executable, str(tmp_path / "worker.py")])
    worker.run(0, results)
    worker.stop()
    kind = cases_of.cases()[0].kind
    assert results.counts == {(kind, "passed"): 2, (kind, "aborted"): 1}
    assert results.others == [(0, "aborted", "exit code -6: terminate called")]
