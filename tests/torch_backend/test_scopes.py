"""Who called an operator: module paths, phases and weights on the live device."""

from __future__ import annotations

import contextlib
import copy
import threading

import torch
from torch import nn

from simdevice.records import PHASES


def small_model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 4), nn.Sequential(nn.ReLU(), nn.Linear(4, 2)))


def by_name(trace, name):
    return [op for op in trace.ops if op.name == name]


def test_forward_operators_carry_their_modules_path():
    model, x = small_model().to("simacc"), torch.ones(3, 8).to("simacc")
    with torch.simacc.record() as rec:
        model(x)
        x + x
    assert [(op.name, op.scope) for op in rec.trace.ops][:4] == [
        ("aten.addmm", "0"),
        ("aten.relu", "1.0"),
        ("aten.addmm", "1.1"),
        ("aten.add", ""),
    ]


def test_backward_operators_take_the_scope_and_backward_phase_of_their_forward():
    model, x = small_model().to("simacc"), torch.ones(3, 8).to("simacc")
    with torch.simacc.record() as rec:
        model(x).sum().backward()
    backward = [(op.name, op.scope) for op in rec.trace.ops if op.phase == "backward"]
    assert ("aten.threshold_backward", "1.0") in backward
    # Weight gradients: 4x3 @ 3x8 in the first layer, 2x3 @ 3x4 in the last.
    shapes = {
        op.scope: op.outputs[0].shape
        for op in by_name(rec.trace, "aten.mm")
        if op.outputs[0].shape[-1] in (8, 4) and op.outputs[0].shape[0] != 3
    }
    assert shapes == {"0": (4, 8), "1.1": (2, 4)}


def test_optimizer_steps_are_their_own_phase():
    model, x = small_model().to("simacc"), torch.ones(3, 8).to("simacc")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with torch.simacc.record() as rec:
        model(x).sum().backward()
        optimizer.step()
        x + x
    phases = {phase: {op.name for op in rec.trace.ops if op.phase == phase} for phase in PHASES}
    assert phases["optimizer"] == {"aten._foreach_add_"}
    assert "aten.add" in phases["forward"]


def test_weights_are_known_through_views_and_buffers_are_not():
    model = nn.Sequential(nn.Linear(8, 4), nn.BatchNorm1d(4)).to("simacc").eval()
    with torch.simacc.record(scopes=False) as rec:
        model(torch.ones(3, 8).to("simacc"))
    (addmm,) = by_name(rec.trace, "aten.addmm")
    assert [t.is_weight for t in addmm.inputs] == [True, False, True]  # bias, input, weight.t()
    norm = next(op for op in rec.trace.ops if "batch_norm" in op.name)
    assert sum(t.is_weight for t in norm.inputs) == 2  # scale and shift; the running statistics are buffers
    # 4 x 8 weights + 4 biases + 4 scales + 4 shifts, 4 bytes each = 176
    assert rec.trace.weight_bytes == 176


def test_a_deep_copy_is_marked_by_its_first_call_or_by_hand():
    x = torch.ones(3, 8).to("simacc")
    model = copy.deepcopy(small_model().to("simacc"))
    with torch.simacc.record(scopes=False) as before:
        model(x)
    torch.simacc.mark_weights(model)
    with torch.simacc.record(scopes=False) as after:
        model(x)
    again = copy.deepcopy(model)
    with torch.simacc.record() as scoped:
        again(x)
    # (8 x 4 + 4 + 4 x 2 + 2) x 4 bytes = 184
    assert (before.trace.weight_bytes, after.trace.weight_bytes, scoped.trace.weight_bytes) == (0, 184, 184)


def test_modules_built_on_the_device_have_weights():
    with torch.device("simacc"):
        model = nn.Linear(8, 4)
    with torch.simacc.record(scopes=False) as rec:
        model(torch.ones(3, 8, device="simacc"))
    assert rec.trace.weight_bytes == (8 * 4 + 4) * 4


def test_two_models_in_one_recording_are_told_apart():
    x = torch.ones(3, 8).to("simacc")
    first, second = small_model().to("simacc"), small_model().to("simacc")
    with torch.simacc.record() as rec:
        first(x)
        second(x)
    assert [op.scope for op in by_name(rec.trace, "aten.addmm")] == ["0", "1.1", "Sequential.0", "Sequential.1.1"]


def test_scopes_off_installs_no_hook_and_names_no_scope():
    model, x = small_model().to("simacc"), torch.ones(3, 8).to("simacc")
    with torch.simacc.record(scopes=False) as rec:
        assert not torch.nn.modules.module._global_forward_pre_hooks
        model(x)
    assert rec.trace.scopes == ("",)
    assert not torch.nn.modules.module._global_forward_pre_hooks


def test_a_forward_that_raises_leaves_no_scope_behind():
    class Broken(nn.Module):
        def forward(self, x):
            raise ValueError("broken")

    model, x = nn.Sequential(nn.Linear(8, 4), Broken()).to("simacc"), torch.ones(3, 8).to("simacc")
    with torch.simacc.record() as rec:
        with contextlib.suppress(ValueError):
            model(x)
        x + x
    assert by_name(rec.trace, "aten.add")[0].scope == ""


def test_the_model_in_an_optimizers_closure_is_forward():
    model, x = small_model().to("simacc"), torch.ones(3, 8).to("simacc")
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=1)

    def closure():
        optimizer.zero_grad()
        loss = model(x).sum()
        loss.backward()
        return loss

    with torch.simacc.record() as rec:
        optimizer.step(closure)
    assert {op.phase for op in by_name(rec.trace, "aten.addmm")} == {"forward"}
    assert {op.phase for op in by_name(rec.trace, "aten.mm")} == {"backward"}


def test_an_optimizer_step_that_raises_leaves_no_phase_behind():
    x = torch.ones(3, device="simacc")

    def fail():
        raise ValueError

    with contextlib.suppress(ValueError):
        torch.optim.SGD([x.requires_grad_()], lr=0.1).step(fail)
    with torch.simacc.record() as rec:
        x.detach() + 1
    assert {op.phase for op in rec.trace.ops} == {"forward"}


def test_a_step_that_raised_is_over_with_the_next_one():
    x = torch.ones(3, device="simacc", requires_grad=True)
    optimizer = torch.optim.SGD([x], lr=0.1)

    def fail():
        raise ValueError

    with torch.simacc.record() as rec:
        with contextlib.suppress(ValueError):
            optimizer.step(fail)
        x.sum().backward()
        optimizer.step()
        x.detach() * 2
    assert {op.phase for op in by_name(rec.trace, "aten.mul")} == {"forward"}


def test_a_module_that_outlives_the_hooks_leaves_no_scope_in_its_thread():
    inside, leave, scopes = threading.Event(), threading.Event(), []

    class Waiting(nn.Module):
        def forward(self, x):
            inside.set()
            leave.wait(10)
            return x

    model, x = nn.Sequential(Waiting()).to("simacc"), torch.ones(3, device="simacc")

    def work():
        model(x)
        with torch.simacc.record() as later:
            x + x
        scopes.extend(op.scope for op in later.trace.ops)

    thread = threading.Thread(target=work)
    with torch.simacc.record():
        thread.start()
        inside.wait(10)
    leave.set()
    thread.join()
    assert scopes == ["", ""]
