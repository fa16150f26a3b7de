"""The documentation of costs says what the code does."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from simdevice.costs import Costs
from simdevice.costs.aten import sort
from simdevice.records import CATEGORIES, Signature, TensorSpec

DOCS = Path(__file__).parents[2] / "docs"


def snippets(name):
    return re.findall(r"```python\n(.*?)```", (DOCS / name).read_text(), re.S)


def test_the_example_of_ones_own_rule_runs():
    scope = {}
    exec(snippets("add_a_cost_rule.md")[0], scope)
    call = Signature("mylib.my_op", (), (TensorSpec((2, 3), "float32"),))
    assert scope["costs"](call).flops == 12
    assert isinstance(scope["costs"], Costs)


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
