"""A fused optimizer step costs what the elementwise steps cost that it fuses; the foreach form is the oracle."""

from __future__ import annotations

import pytest
import torch

SETTINGS = [
    (torch.optim.Adam, {}),
    (torch.optim.Adam, {"weight_decay": 0.1}),
    (torch.optim.Adam, {"amsgrad": True}),
    (torch.optim.Adam, {"maximize": True}),
    (torch.optim.AdamW, {}),
    (torch.optim.AdamW, {"weight_decay": 0.0}),
    (torch.optim.SGD, {"lr": 0.1}),
    (torch.optim.SGD, {"lr": 0.1, "weight_decay": 0.1}),
    (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}),
    (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    (torch.optim.SGD, {"lr": 0.1, "maximize": True}),
    (torch.optim.Adagrad, {}),
    (torch.optim.Adagrad, {"weight_decay": 0.1}),
]


def stepped(kind, options, form):
    """An optimizer over two parameters after its first step, ready for its second."""
    parameters = [torch.ones(5, 7, requires_grad=True), torch.ones(11, requires_grad=True)]
    for p in parameters:
        p.grad = torch.ones_like(p)
    optimizer = kind(parameters, **{form: True}, **options)
    optimizer.step()
    return optimizer


@pytest.mark.parametrize(("kind", "options"), SETTINGS)
def test_fused_step_has_the_flops_of_the_foreach_step(ops, kind, options):
    fused = ops(stepped(kind, options, "fused").step)
    foreach = ops(stepped(kind, options, "foreach").step)
    assert any("_fused_" in o.name for o in fused)
    assert any("_foreach_" in o.name for o in foreach)
    assert sum(o.flops for o in fused) == sum(o.flops for o in foreach)


def test_first_momentum_step_copies_the_gradient_instead(ops):
    def first(form):
        parameter = torch.ones(5, 7, requires_grad=True)
        parameter.grad = torch.ones_like(parameter)
        return torch.optim.SGD([parameter], lr=0.1, momentum=0.9, **{form: True}).step

    fused, foreach = ops(first("fused")), ops(first("foreach"))
    assert sum(o.flops for o in fused) == sum(o.flops for o in foreach) == 35


def test_fused_adamw_reads_everything_once_and_writes_all_but_gradients(ops):
    rows = [o for o in ops(stepped(torch.optim.AdamW, {}, "fused").step) if "_fused_" in o.name]
    # 46 parameters; read: 4 lists of 46 floats and 2 step counts; written: parameters and two moments
    assert [(o.cost.bytes_read, o.cost.bytes_written) for o in rows] == [(46 * 4 * 4 + 8, 46 * 3 * 4)]
