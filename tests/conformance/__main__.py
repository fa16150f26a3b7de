"""Run every case in worker processes and write the page.

python -m tests.conformance --jobs 2 --out docs/conformance.md
python -m tests.conformance --only "forward: fft" --list     print what does not pass
"""

from __future__ import annotations

import argparse
import json
import queue
import re
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from .cases import cases
from .page import Results, page

ROOT = Path(__file__).parents[2]
STILL_S = 300.0  # a sample that takes longer hangs


class Worker:
    """A worker process that is started again after each abort."""

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        self._errors = tempfile.TemporaryFile("w+")
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"{__package__}.worker"],
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True, bufsize=1,
        )  # fmt: skip

    def run(self, number: int, results: Results) -> None:
        first = 0
        while (aborted := self._run_from(number, first, results)) is not None:
            self._errors.seek(0)
            words = (self._errors.read().strip().splitlines() or ["no word"])[-1]
            results.add(number, "aborted", f"exit code {self._process.wait()}: {words[:300]}")
            self._start()
            first = aborted + 1

    def _run_from(self, number: int, first: int, results: Results) -> int | None:
        """The sample that ended the process, or None."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{number} {first}\n")
        sample = first - 1
        while True:
            timer = threading.Timer(STILL_S, self._process.kill)
            timer.start()
            line = self._process.stdout.readline()
            timer.cancel()
            if not line:
                return sample
            what, words = json.loads(line)
            if what == "end":
                return None
            if what == "start":
                sample += 1
            else:
                results.add(number, what, words)

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__.split("\n")[0])
    parser.add_argument("--jobs", type=int, default=2, help="worker processes")
    parser.add_argument("--out", type=Path, help="write the page here")
    parser.add_argument("--only", default="", help="cases whose name this regular expression matches")
    parser.add_argument("--every", type=int, default=1, help="one case in so many")
    parser.add_argument("--list", action="store_true", help="print each sample that does not pass")
    options = parser.parse_args()
    started = time.monotonic()
    numbers = [i for i, case in enumerate(cases()) if re.search(options.only, str(case))][:: options.every]
    results, todo = Results(), queue.SimpleQueue[int]()
    for number in numbers:
        todo.put(number)
    threads = [threading.Thread(target=_work, args=(todo, results)) for _ in range(options.jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive():
            thread.join(20)
            print(f"{len(numbers) - todo.qsize()} of {len(numbers)} cases", file=sys.stderr, flush=True)
    if options.list:
        for number, what, words in results.others:
            if what not in ("refused", "no samples"):
                print(f"{cases()[number]}: {what}: {words}")
    if options.out is not None:
        options.out.write_text(page(results, options.jobs))
    print(f"{results.summary()}, {time.monotonic() - started:.0f} s")
    return 0 if results.conforms() else 1


def _work(todo: queue.SimpleQueue[int], results: Results) -> None:
    worker = Worker()
    while True:
        try:
            number = todo.get_nowait()
        except queue.Empty:
            break
        worker.run(number, results)
    worker.stop()


sys.exit(main())
