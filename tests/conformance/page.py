"""What came out, as counts and as `docs/conformance.md`."""

from __future__ import annotations

import threading
from collections import Counter

import torch

from .cases import SAMPLES, cases
from .reasons import REASONS, reason_for

TARGET = 0.995  # of the samples that the CPU passes


class Results:
    """Outcomes of samples; several threads add."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.counts: Counter[tuple[str, str]] = Counter()  # (kind, outcome)
        self.reasons: Counter[str] = Counter()
        self.others: list[tuple[int, str, str]] = []  # (case, outcome, words) of all that did not pass

    def add(self, number: int, what: str, words: str | None) -> None:
        case = cases()[number]
        with self._lock:
            if what != "passed":
                self.others.append((number, what, words or ""))
            if what in ("differs", "raised") and (reason := reason_for(case, words or "")) is not None:
                self.reasons[reason.text] += 1
                what = "explained"
            self.counts[case.kind, what] += 1

    def of(self, kind: str | None, *whats: str) -> int:
        return sum(n for (k, what), n in self.counts.items() if kind in (None, k) and what in whats)

    def possible(self, kind: str | None = None) -> int:
        """Samples that the CPU passes."""
        return self.of(kind, "passed", "explained", "differs", "raised", "aborted")

    def conforms(self) -> bool:
        return self.of(None, "aborted") == 0 and self.of(None, "passed") >= TARGET * self.possible()

    def summary(self) -> str:
        passed, possible = self.of(None, "passed"), self.possible()
        share = 100 * passed / max(possible, 1)
        return (
            f"{passed} of {possible} samples that the CPU passes ({share:.3f} %), "
            f"{self.of(None, 'explained')} explained, {self.of(None, 'differs', 'raised')} failures, "
            f"{self.of(None, 'aborted')} aborts"
        )


def page(results: Results, jobs: int) -> str:
    lines = [
        "# Conformance",
        "",
        "Written by `make conformance`. PyTorch's own databases (operators with every dtype that the CPU has,",
        "`foreach` operators, modules, optimizers) run on the CPU and on simacc. A sample passes where simacc gives",
        "the CPU's bits (any NaN is any other), dtype, shape, strides and sharing of memory, and leaves the same in",
        "the arguments; random operators start from the same seed. The denominator is all samples that the CPU passes:",
        "what a reason below explains counts as not passed.",
        "",
        f"PyTorch {torch.__version__}, {jobs} processes of one thread. **{results.summary()}.**",
        "",
        "| kind | cases | samples the CPU passes | pass | explained | fail | abort | refused by the CPU too |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    kinds = Counter(case.kind for case in cases())
    for kind in SAMPLES:
        numbers = [results.possible(kind)]
        numbers += [results.of(kind, *w) for w in (["passed"], ["explained"], ["differs", "raised"], ["aborted"])]
        numbers.append(results.of(kind, "refused"))
        lines.append(f"| {kind} | {kinds[kind]} | " + " | ".join(map(str, numbers)) + " |")
    lines += ["", "## Reasons", "", "| samples | reason |", "|---:|---|"]
    lines += [f"| {results.reasons[r.text]} | {r.text} |" for r in REASONS if results.reasons[r.text]]
    failures = [
        f"- {cases()[n]}: {what}: {words}"
        for n, what, words in sorted(results.others)
        if what == "aborted" or (what in ("differs", "raised") and reason_for(cases()[n], words) is None)
    ]
    if failures:
        lines += ["", "## Failures", "", *dict.fromkeys(failures)]
    return "\n".join(lines) + "\n"
