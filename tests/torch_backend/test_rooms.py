"""The live device's sources: rooms that depend one way, in C++ and in Python, and a page that names them all."""

from __future__ import annotations

import ast
import re
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NATIVE = ROOT / "csrc" / "device"
PYTHON = ROOT / "simdevice" / "torch_backend"

MAY_INCLUDE = {
    "recorder": set(),
    "runtime": {"recorder"},
    "aten": {"recorder", "runtime"},
    "binding": {"recorder", "runtime", "aten"},
    "Device.cpp": {"recorder", "runtime", "aten", "binding"},
}
NATIVE_FILES = sorted(path for path in NATIVE.rglob("*") if path.suffix in (".cpp", ".h"))


def included(path: Path) -> list[Path]:
    """Our own headers and sources that a file includes."""
    return [(path.parent / name).resolve() for name in re.findall(r'^#include "(.+)"$', path.read_text(), re.M)]


def room(path: Path) -> str:
    return path.relative_to(NATIVE).parts[0]


@pytest.mark.parametrize("path", NATIVE_FILES, ids=lambda p: str(p.relative_to(NATIVE)))
def test_a_native_room_includes_only_what_is_below_it(path):
    here = room(path)
    for header in included(path):
        assert header.is_file(), f"{path} includes {header}"
        assert room(header) in MAY_INCLUDE[here] | {here}, f"{path.name} of {here} includes {header}"


def test_every_native_source_is_compiled():
    compiled = {*included(NATIVE / "Device.cpp"), NATIVE / "Device.cpp", NATIVE / "binding" / "Module.cpp"}
    assert compiled == {path for path in NATIVE_FILES if path.suffix == ".cpp"}


def test_no_native_file_is_too_long():
    assert {p.name: n for p in NATIVE_FILES if (n := len(p.read_text().splitlines())) > 400} == {}


def test_the_page_names_every_file_and_every_test_file():
    page = (NATIVE / "README.md").read_text()
    named = set(re.findall(r"`([\w/]+(?:\.cpp|\.h|))`", page))
    files = {str(path.relative_to(NATIVE)) for path in NATIVE_FILES}
    covered = {name for name in files if name in named or name.rpartition(".")[0] in named}
    assert files - covered == set()
    tests = {str(ROOT / name) if "/" in name else str(PYTHON.parents[1] / "tests" / "torch_backend" / name)
             for name in re.findall(r"`((?:tests/\w+/)?test_\w+\.py)`", page)}  # fmt: skip
    assert [name for name in tests if not Path(name).is_file()] == []
    assert {str(path) for path in Path(__file__).parent.glob("test_*.py")} - tests == set()


def imports_at_load(path: Path) -> set[str]:
    """Files of this package that a file imports when it is imported itself."""
    names = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("simdevice.torch_backend"):
            part = node.module.removeprefix("simdevice.torch_backend").removeprefix(".")
            names |= {part} if part else {alias.name for alias in node.names}
    return names


def late_imports(path: Path) -> set[str]:
    """Files of this package that a function imports when it is called."""
    tree = ast.parse(path.read_text())
    nodes = [n for f in ast.walk(tree) if isinstance(f, ast.FunctionDef) for n in ast.walk(f)]
    ours = [n for n in nodes if isinstance(n, ast.ImportFrom) and (n.module or "").startswith("simdevice")]
    return {n.module.rpartition(".")[2] if n.module.count(".") > 1 else a.name for n in ours for a in n.names}


def test_files_import_each_other_in_one_direction():
    graph = {path.stem: imports_at_load(path) for path in PYTHON.glob("*.py")}
    order = list(TopologicalSorter(graph).static_order())  # raises CycleError on a circle
    assert order.index("process") < order.index("session") < order.index("recording")
    assert order.index("machine") < order.index("bootstrap") < order.index("recording")


def test_late_imports_are_those_that_have_a_reason():
    late = {path.stem: names for path in PYTHON.glob("*.py") if (names := late_imports(path))}
    assert late == {
        # `import torch` runs these, and loads nothing of the simulator
        "__init__": {
            *("bootstrap", "build", "dlpack", "namespace", "presence", "process", "profiler_tables", "user_kernels"),
        },
        "compile_backend": {"flex"},  # it defines an operator
        "memory": {"format_bytes"},
        "namespace": {"compile_backend", "machine", "recording", "scopes"},
        "places": {"bootstrap"},
        "presence": {"bootstrap"},
        "patches": {"compile_backend", "dynamo"},  # Dynamo, for programs that compile
    }
