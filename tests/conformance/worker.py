"""One process that runs cases by number: reads "case first-sample" lines, writes one JSON line per sample.

A line with the sample's number goes out before the sample runs, so that whoever reads knows which one ended the
process.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Iterator

import torch

from .cases import Refused, cases, samples


def outcomes(number: int, first: int, most: int | None = None) -> Iterator[tuple[str, str | None]]:
    """(what happened, in which words) per sample from `first` on, each announced by ("start", None)."""
    drawn = samples(cases()[number], most)
    for sample in range(sys.maxsize):
        try:
            run = next(drawn)
        except StopIteration:
            return
        except Exception as error:  # the database can't make its own samples on a CPU
            yield "no samples", _line(error)
            return
        if sample < first:
            continue
        yield "start", None
        try:
            difference = run()
        except Refused as refused:
            yield "refused", _line(refused)
        except Exception as error:
            yield "raised", _line(error)
        else:
            yield ("passed", None) if difference is None else ("differs", difference)


def _line(error: BaseException) -> str:
    text = str(error).strip() or type(error).__name__
    return f"{type(error).__name__}: {text.splitlines()[0][:300]}"


def main() -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    with os.fdopen(os.dup(1), "w", buffering=1) as answers:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # operators print too
        for line in sys.stdin:
            number, first = map(int, line.split())
            for what, words in outcomes(number, first):
                answers.write(json.dumps([what, words]) + "\n")
            answers.write(json.dumps(["end", None]) + "\n")


if __name__ == "__main__":
    main()
