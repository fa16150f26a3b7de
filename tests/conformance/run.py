"""Cases in worker processes: one that aborts or hangs costs one sample."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

from .page import Results

__all__ = ["Worker", "run"]

ROOT = Path(__file__).parents[2]
STILL_S = 300.0  # a sample that takes longer hangs


class Worker:
    """A worker process that is started again after each abort."""

    def __init__(self, command: Sequence[str] = (sys.executable, "-m", f"{__package__}.worker")) -> None:
        self._command = command
        self._start()

    def _start(self) -> None:
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115  # lives as long as the process
        self._process = subprocess.Popen(
            self._command,
            cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True, bufsize=1,
        )  # fmt: skip

    def run(self, number: int, results: Results) -> None:
        first = 0
        while (aborted := self._run_from(number, first, results)) is not None:
            self._errors.seek(0)
            words = (self._errors.read().strip().splitlines() or ["no word"])[-1]
            results.add(number, "aborted", f"exit code {self._process.wait()}: {words[:300]}")
            self.stop()
            self._start()
            first = aborted + 1

    def _run_from(self, number: int, first: int, results: Results) -> int | None:
        """The sample that ended the process, or None."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
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
        self._process.kill()
        self._process.communicate()  # which closes its pipes too
        self._errors.close()


def run(numbers: Sequence[int], jobs: int, results: Results) -> None:
    """Run the cases with these numbers in so many processes, and say now and then how far they are."""
    todo = queue.SimpleQueue[int]()
    for number in numbers:
        todo.put(number)
    threads = [threading.Thread(target=_work, args=(todo, results)) for _ in range(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive():
            thread.join(20)
            print(f"{len(numbers) - todo.qsize()} of {len(numbers)} cases", file=sys.stderr, flush=True)


def _work(todo: queue.SimpleQueue[int], results: Results) -> None:
    worker = Worker()
    while True:
        try:
            number = todo.get_nowait()
        except queue.Empty:
            break
        worker.run(number, results)
    worker.stop()
