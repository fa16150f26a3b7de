"""The arrow: front end, trace, session, engine, report. Each room imports only what is on its left."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "simdevice"

BASE = {"errors", "extras", "units", "files"}
MAY_IMPORT = {
    "errors": set(),
    "extras": {"errors"},
    "files": {"errors"},
    "units": {"errors"},
    "records": BASE,
    "hardware": BASE,
    "analysis": BASE | {"records"},
    "costs": BASE | {"records"},
    "frontends": BASE | {"records", "costs"},
    "lowering": BASE | {"records", "hardware"},
    "engines": BASE | {"records"},
    "devices": BASE | {"records", "analysis", "hardware", "costs", "lowering", "engines"},
    "report": BASE | {"records", "analysis", "hardware", "devices"},
    "torch_backend": BASE | {"records", "devices", "frontends", "costs"},
    "integrations": BASE | {"torch_backend"},
    "workloads": BASE | {"records", "frontends", "costs"},
    "sweeps": BASE | {"records", "analysis", "devices", "report", "hardware", "lowering", "engines"},
    "cli": None,  # everything
    "__init__": None,
}
LATE = {
    # (file, room): a convenience of the public API, imported when called; the arrow holds at import.
    ("records/run.py", "report"),
    ("records/run.py", "analysis"),
}
HEAVY = {"torch", "onnx", "onnxruntime", "transformers"}
MAY_IMPORT_TORCH = {"frontends", "torch_backend", "integrations", "workloads"}


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def room(path: Path) -> str:
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def imports(path: Path) -> set[str]:
    """Dotted names a module imports, outside `if TYPE_CHECKING`."""
    found = set()
    tree = ast.parse(path.read_text())
    checking = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.unparse(block.test)
        for node in ast.walk(block)
    }
    for node in ast.walk(tree):
        if id(node) in checking:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found.add(node.module or "")
            if node.module == "simdevice":
                found |= {f"simdevice.{alias.name}" for alias in node.names}
    return found


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_a_room_imports_only_what_is_on_its_left(path):
    here = room(path)
    assert here in MAY_IMPORT, f"{here} is a room without a rule: add it to MAY_IMPORT"
    allowed = MAY_IMPORT[here]
    relative = str(path.relative_to(PACKAGE))
    for name in imports(path):
        parts = name.split(".")
        if parts[0] == "simdevice" and len(parts) > 1 and allowed is not None:
            target = parts[1]
            native = target in ("_device", "_engine")
            assert target == here or target in allowed or native or (relative, target) in LATE, (
                f"{relative} imports {name}: {here} may import {sorted(allowed)}"
            )
        if parts[0] in HEAVY and here not in ("cli",):
            assert here in MAY_IMPORT_TORCH, f"{relative} imports {parts[0]}: only {sorted(MAY_IMPORT_TORCH)} may"


def test_import_simdevice_is_light():
    heavy = ("torch", "onnx", "pydantic", "matplotlib", "numpy")
    code = f"import sys, simdevice; print([m for m in {heavy} if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert out.stdout.strip() == "[]"


def test_no_file_is_too_long():
    # Duty, not length, decides; a file near 400 lines is asked whether it has one.
    long = {str(p.relative_to(ROOT)): n for p in modules() if (n := len(p.read_text().splitlines())) > 450}
    assert not long
