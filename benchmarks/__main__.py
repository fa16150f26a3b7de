"""`make bench`: ratios measured side by side in one process; nothing here is asserted."""

from __future__ import annotations

import importlib
import pkgutil
import sys

import benchmarks

if __name__ == "__main__":
    wanted = sys.argv[1:]
    for found in sorted(m.name for m in pkgutil.iter_modules(benchmarks.__path__) if not m.name.startswith("_")):
        if not wanted or found in wanted:
            importlib.import_module(f"benchmarks.{found}").main()
