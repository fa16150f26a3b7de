"""A kernel that somebody registers for the device computes the result; the operator keeps its row and its time."""

from __future__ import annotations

import gc
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from torch.utils import cpp_extension

from simdevice.devices import get


@contextmanager
def library(namespace: str, kind: str = "IMPL") -> Iterator[torch.library.Library]:
    """A library that is gone afterwards. PyTorch says once per process that a kernel takes another's place."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lib = torch.library.Library(namespace, kind)
        yield lib
        lib._destroy()


def coarse(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """A functional model: operands in steps of 1/4, the product on the host."""
    quantised = [(t.cpu() * 4).round() / 4 for t in (a, b)]
    return torch.mm(*quantised).to(a.device)


def recorded(run) -> tuple[torch.Tensor, torch.simacc.Recording]:
    with torch.simacc.record() as rec:
        out = run()
    return out, rec


def test_the_users_result_and_the_devices_row_and_time():
    x, w = torch.full((4, 8), 0.3, device="simacc"), torch.full((8, 2), 1.1, device="simacc")
    own, before = recorded(lambda: (x @ w).relu())
    with library("aten") as lib:
        lib.impl("mm", coarse, "PrivateUse1")
        theirs, rec = recorded(lambda: (x @ w).relu())
    again, after = recorded(lambda: (x @ w).relu())
    # 0.3 becomes 0.25, 1.1 becomes 1.0: 8 x 0.25 = 2
    assert torch.equal(theirs.cpu(), torch.full((4, 2), 2.0))
    assert [op.name for op in rec.trace.ops] == [op.name for op in before.trace.ops]
    for run in (before.run, after.run):
        assert [rec.run.start_ps.tolist(), rec.run.end_ps.tolist()] == [run.start_ps.tolist(), run.end_ps.tolist()]
        assert rec.run.trace.table == run.trace.table
    assert get("h100").run(rec.trace) == rec.run
    assert torch.equal(again.cpu(), own.cpu())


def test_gradients_and_modules_go_through_it():
    model = torch.nn.Linear(8, 2, bias=False).to("simacc")
    calls = []

    def counted(a, b):
        calls.append((tuple(a.shape), tuple(b.shape)))
        return torch.mm(a.cpu(), b.cpu()).to(a.device)

    with library("aten") as lib:
        lib.impl("mm", counted, "PrivateUse1")
        _, rec = recorded(lambda: model(torch.ones(4, 8, device="simacc")).sum().backward())
    assert calls == [((4, 8), (8, 2)), ((2, 4), (4, 8))]
    products = [(op.phase, op.inputs[1].is_weight) for op in rec.trace.ops if op.name == "aten.mm"]
    assert products == [("forward", True), ("backward", False)]


def test_an_operator_that_writes_its_argument():
    x = torch.arange(-2.0, 2.0, device="simacc")
    with library("aten") as lib:
        lib.impl("relu_", lambda t: t.copy_(t.cpu().clamp(min=0.5).to(t.device)), "PrivateUse1")
        _, rec = recorded(x.relu_)
    assert x.tolist() == [0.5, 0.5, 0.5, 1.0]
    (op,) = [op for op in rec.trace.ops if op.category != "sync"]
    assert (op.name, op.outputs[0].id) == ("aten.relu_", op.inputs[0].id)


def test_an_operator_of_ones_own_has_a_row_and_a_rule():
    with library("vendor", "DEF") as lib:
        lib.define("twice(Tensor x, Tensor(a!) into) -> Tensor")
        lib.impl("twice", lambda x, into: into.add_(x) * 2, "PrivateUse1")
        x, into = torch.ones(3, device="simacc"), torch.ones(3, device="simacc")
        out, rec = recorded(lambda: torch.ops.vendor.twice(x, into))
    assert out.tolist() == [4.0] * 3
    assert [op.name for op in rec.trace.ops] == ["vendor.twice", "simacc.synchronize"]
    assert len(rec.trace.ops[0].outputs) == 2  # the result, and what was written
    assert list(rec.trace.unknown()) == ["vendor.twice"]


def test_custom_op_and_register_kernel():
    @torch.library.custom_op("vendor::half", mutates_args=(), device_types="cpu")
    def half(x: torch.Tensor) -> torch.Tensor:
        return x / 2

    @half.register_kernel("simacc")
    def on_simacc(x):
        return (x.cpu() / 2 + 1).to(x.device)

    out, rec = recorded(lambda: half(torch.ones(2, device="simacc")))
    assert out.tolist() == [1.5, 1.5]
    assert "vendor.half" in [op.name for op in rec.trace.ops]


@pytest.mark.parametrize("first_to_go", [0, 1])
def test_of_two_libraries_the_one_that_stays_keeps_the_row(first_to_go):
    x = torch.ones(2, 2, device="simacc")

    def times(factor):
        return lambda a, b: torch.full((2, 2), 2.0 * factor).to(a.device) + 0  # `+`: no row of its own

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        libraries = [torch.library.Library("aten", "IMPL") for _ in range(2)]
        for factor, lib in enumerate(libraries, 2):
            lib.impl("mm", times(factor), "PrivateUse1", allow_override=True)
        seen = [recorded(lambda: x @ x)]
        for lib in (libraries[first_to_go], libraries[1 - first_to_go]):
            lib._destroy()
            seen.append(recorded(lambda: x @ x))
    assert [out.tolist()[0][0] for out, _ in seen] == [6, 6 if first_to_go == 0 else 4, 2]
    for _, rec in seen:
        assert [op.name for op in rec.trace.ops if op.category != "sync"] == ["aten.mm"]


def test_a_fallthrough_computes_nothing_and_is_not_watched():
    x = torch.ones(2, 2, device="simacc")
    with library("aten") as lib:
        lib.impl("mm", torch.library.fallthrough_kernel, "PrivateUse1")
        out, rec = recorded(lambda: x @ x)
    assert out.tolist() == [[2, 2], [2, 2]]
    assert [op.name for op in rec.trace.ops if op.category != "sync"] == ["aten.mm"]


@pytest.mark.parametrize("goes", ["library._destroy()", "del library; gc.collect()"])
def test_a_library_that_is_older_than_the_device_keeps_its_row_and_can_go(goes):
    code = f"""
import gc, torch, warnings
warnings.simplefilter("ignore")
library = torch.library.Library("aten", "IMPL")
library.impl("mm", lambda a, b: torch.zeros(2, 2).to(a.device), "PrivateUse1")
x = torch.ones(2, 2, device="simacc")
def run():
    with torch.simacc.record() as rec:
        y = x @ x
    print(y.sum().item(), [op.name for op in rec.trace.ops if op.category != "sync"])
run()
{goes}
run()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("0.0 ['aten.mm']\n8.0 ['aten.mm']\n", 0), done.stderr


def test_a_library_that_is_forgotten_takes_its_kernel_along():
    x = torch.ones(2, 2, device="simacc")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lib = torch.library.Library("aten", "IMPL")
        lib.impl("mm", lambda a, b: torch.zeros(2, 2, device=a.device), "PrivateUse1")
    assert (x @ x).sum().item() == 0
    del lib
    gc.collect()
    assert (x @ x).sum().item() == 8


def test_a_result_on_the_host_is_one_clear_line():
    x = torch.ones(2, 2, device="simacc")
    with library("aten") as lib:
        lib.impl("mm", lambda a, b: torch.mm(a.cpu(), b.cpu()), "PrivateUse1")
        with pytest.raises(RuntimeError) as refused:
            x @ x
    assert str(refused.value).splitlines()[0] == (
        "the kernel that was registered for aten.mm on simacc gave a tensor on cpu; expected one on simacc:0 "
        "(.to(...) it before returning)"
    )
    assert (x @ x).sum().item() == 8


def test_an_exception_in_it_is_the_programs_and_nothing_is_recorded():
    x = torch.ones(2, 2, device="simacc")

    def fails(a, b):
        raise ValueError("no such tile")

    with library("aten") as lib:
        lib.impl("mm", fails, "PrivateUse1")
        with torch.simacc.record() as rec:
            with pytest.raises(ValueError, match="no such tile"):
                x @ x
            x + x  # recording goes on
    assert [op.name for op in rec.trace.ops] == ["aten.add", "simacc.synchronize"]


def test_kernels_for_other_devices_are_left_alone():
    with library("aten") as lib:
        lib.impl("mm", lambda a, b: torch.full((2, 2), 7.0), "CPU")
        assert torch.ones(2, 2).mm(torch.ones(2, 2)).sum().item() == 28


@pytest.mark.slow  # compiles a library: about half a minute
def test_a_library_in_cpp(tmp_path):
    source = tmp_path / "model.cpp"
    source.write_text(
        """
#include <ATen/ATen.h>
#include <torch/library.h>
at::Tensor hardswish(const at::Tensor& x) { return at::full_like(x, 3); }
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("hardswish", hardswish); }
"""
    )
    cpp_extension.load("vendor_model", [str(source)], build_directory=str(tmp_path), is_python_module=False)
    x = torch.ones(2, device="simacc")
    out, rec = recorded(lambda: torch.nn.functional.hardswish(x))
    assert out.tolist() == [3.0, 3.0]
    assert [op.name for op in rec.trace.ops] == ["aten.hardswish", "simacc.synchronize"]


def test_what_a_kernel_computes_with_numpy():
    x = torch.arange(6.0).view(2, 3).to("simacc")
    with library("aten") as lib:
        lib.impl("exp", lambda t: torch.from_numpy(np.exp2(t.cpu().numpy())).to(t.device), "PrivateUse1")
        out, _ = recorded(lambda: torch.exp(x))
    assert out.flatten().tolist() == [1, 2, 4, 8, 16, 32]
