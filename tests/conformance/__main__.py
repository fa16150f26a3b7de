"""Run every case in worker processes and write the page.

python -m tests.conformance --jobs 2 --out docs/conformance.md
python -m tests.conformance --only "forward: fft" --list     print what does not pass
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from pathlib import Path

from .cases import cases
from .page import Results, page
from .run import run


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
    results = Results()
    run(numbers, options.jobs, results)
    if options.list:
        for number, what, words in results.others:
            if what not in ("refused", "no samples"):
                print(f"{cases()[number]}: {what}: {words}")
    if options.out is not None:
        options.out.write_text(page(results, options.jobs))
    print(f"{results.summary()}, {time.monotonic() - started:.0f} s")
    return 0 if results.conforms() else 1


sys.exit(main())
