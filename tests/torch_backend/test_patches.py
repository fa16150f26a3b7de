"""What is changed in PyTorch's own classes: each change with its reason, put back on request; and no warning hidden."""

from __future__ import annotations

import inspect
import io
import warnings
from multiprocessing.reduction import ForkingPickler

import pytest
import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook

from simdevice import torch_backend
from simdevice.torch_backend import dlpack, patches, presence, profiler_tables, replicas, sending, user_kernels
from simdevice.torch_backend.patch import Patch, Patches

ALL = tuple(patch for group in patches.ALL for patch in group.patches)
FILES = {module.__file__ for module in (dlpack, patches, presence, profiler_tables, replicas, sending, user_kernels)}


@pytest.fixture
def unpatched():
    patches.undo()
    yield
    patches.install()


def standing() -> list[object]:
    """What stands in each patched place."""
    return [patch._read() for patch in ALL]


def files() -> set[str]:
    return {inspect.unwrap(p, stop=lambda f: True).__code__.co_filename for p in standing() if hasattr(p, "__code__")}


@pytest.mark.parametrize("patch", ALL, ids=lambda p: f"{p.replacement.__name__}-{p.key}")
def test_a_patch_says_its_reason(patch):
    assert len(patch.replacement.__doc__) > 60


def test_undo_puts_back_what_was_there_and_install_applies_it_again():
    assert files() >= FILES
    patched = standing()
    try:
        patches.undo()
        original = standing()
        assert not FILES & files()
        assert all(a is not b for a, b in zip(original, patched, strict=True))
        patches.undo()  # nothing is left to undo
        assert standing() == original
    finally:
        patches.install()
    assert files() >= FILES
    patches.undo()
    assert standing() == original
    patches.install()


def weight_bytes(module: nn.Module) -> int:
    x = torch.ones(1, 4, device="simacc")
    with torch.simacc.record(scopes=False) as rec:
        module(x)
    assert rec.trace.ops[0].name == "aten.addmm"
    return rec.trace.ops[0].cost.weight_bytes


def test_a_moved_module_has_weights_because_of_a_patch(unpatched):
    assert weight_bytes(nn.Linear(4, 4).to("simacc")) == 0
    patches.install()
    assert weight_bytes(nn.Linear(4, 4).to("simacc")) == 4 * 4 * 4 + 4 * 4  # the matrix and the bias
    patches.undo()


def test_a_tensor_can_be_sent_because_of_a_patch(unpatched):
    x = torch.ones(3, device="simacc")
    with pytest.raises((RuntimeError, NotImplementedError)):
        ForkingPickler(io.BytesIO()).dump(x)
    patches.install()
    ForkingPickler(io.BytesIO()).dump(x)
    patches.undo()


def test_a_pytorch_that_cannot_be_patched_can_be_imported(monkeypatch):
    first = Patch(torch.autograd.profiler.profile, "__enter__", lambda before: lambda self: before(self))
    gone = Patch(torch.autograd.profiler.profile, "no_such_method", lambda before: before)
    monkeypatch.setattr(profiler_tables, "PATCHES", Patches((first, gone)))
    before = first._read()
    with pytest.warns(UserWarning, match="simacc: this PyTorch is not as expected"):
        torch_backend._patch()
    assert first._read() is before


def test_what_somebody_else_put_on_top_stays():
    ours = nn.Module._apply

    def theirs(self, *args, **kwargs):
        return ours(self, *args, **kwargs)

    nn.Module._apply = theirs
    try:
        patches.undo()
        assert nn.Module._apply is theirs
    finally:
        original = inspect.unwrap(ours)
        nn.Module._apply = original
        patches.install()
    assert inspect.unwrap(nn.Module._apply) is original


def test_no_warnings_filter_outlives_a_recording():
    before = list(warnings.filters)
    with torch.simacc.record():
        assert len(warnings.filters) == len(before) + 1
        with torch.simacc.record():
            assert len(warnings.filters) == len(before) + 1
    assert warnings.filters == before
    with torch.simacc.record(scopes=False):
        assert warnings.filters == before


def test_only_our_own_hooks_are_not_warned_of():
    module = torch.compile(nn.Linear(2, 2), backend="eager")
    with torch.simacc.record():
        module(torch.ones(1, 2))  # the warning would be an error here
    handle = register_module_forward_hook(lambda *_: None)
    try:
        with pytest.warns(UserWarning, match="global hooks on modules"):
            module(torch.ones(1, 2))
    finally:
        handle.remove()
        torch._dynamo.reset()


def test_a_recording_does_not_make_modules_forget_what_they_have_warned_of():
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("default")
        for _ in range(3):
            warnings.warn("said once", UserWarning, stacklevel=1)
            with torch.simacc.record():
                pass
    assert [str(w.message) for w in seen] == ["said once"]
