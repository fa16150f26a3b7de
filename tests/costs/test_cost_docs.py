"""The documentation of costs says what the code does."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

from simdevice.costs.aten import sort
from simdevice.records import CATEGORIES

DOCS = Path(__file__).parents[2] / "docs"


def snippets(name):
    return re.findall(r"```python\n(.*?)```", (DOCS / name).read_text(), re.S)


PROGRAM = """
import torch

@torch.library.custom_op("mylib::my_op", mutates_args=(), device_types="cpu")
def operator(x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(2 * x.numpy())

model, inputs = operator, torch.ones(2, 3)
"""


def test_the_example_of_ones_own_rule_runs_for_one_trace_and_for_a_process():
    """In a process of its own: what it registers stays."""
    used = """
assert trace.flops == 12  # 2 for each of 6 elements
assert sd.trace(model, inputs).is_lower_bound
sd.costs.register("mylib.my_op")(my_op)
with torch.simacc.record() as rec:
    assert model(inputs.to("simacc")).tolist() == [[2.0] * 3] * 2
assert rec.trace.flops == 12
"""
    subprocess.run([sys.executable, "-c", PROGRAM + snippets("add_a_cost_rule.md")[0] + used], check=True)


def test_the_quoted_rule_is_live_code():
    quoted = snippets("add_a_cost_rule.md")[1]
    assert quoted in inspect.getsource(sort)


def test_every_category_is_documented():
    page = (DOCS / "conventions.md").read_text()
    listed = re.search(r"## Categories\n\n`([^`]+)`", page)
    assert listed.group(1).split() == sorted(listed.group(1).split(), key=list(CATEGORIES).index)
    assert set(listed.group(1).split()) == set(CATEGORIES)


def test_files_that_the_documentation_names_exist():
    for name in ("conventions.md", "add_a_cost_rule.md"):
        for path in re.findall(r"`((?:simdevice|tests|docs)/[\w/.]+)`", (DOCS / name).read_text()):
            assert (DOCS.parent / path).exists(), path
