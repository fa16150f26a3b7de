from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import simdevice as sd
from simdevice.errors import CaptureError, UncostedOperatorError, UnknownNameError
from simdevice.records import Cost, Op, Trace

F = torch.nn.functional


def names(trace: Trace) -> list[str]:
    return [op.name for op in trace.ops]


def only(function: Callable[..., Any], *args: torch.Tensor) -> Op:
    """The one operator that a function calls."""
    (op,) = sd.trace(function, *args).ops
    return op


def ids(op: Op) -> tuple[list[int], list[int]]:
    return [t.id for t in op.inputs], [t.id for t in op.outputs]


@pytest.fixture
def x() -> torch.Tensor:
    return torch.ones(2, 3)


def test_a_call_says_its_name_shapes_and_types(x: torch.Tensor) -> None:
    op = only(torch.mm, x.half(), torch.ones(3, 4).half())
    assert op.name == "aten.mm"
    assert [t.shape for t in op.inputs] == [(2, 3), (3, 4)]
    assert [(t.shape, t.dtype, t.nbytes) for t in op.outputs] == [((2, 4), "float16", 16)]
    assert op.flops == 2 * 2 * 3 * 4


def test_an_in_place_operator_reads_and_writes_itself(x: torch.Tensor) -> None:
    op = only(lambda t: t.neg_(), x)
    assert op.name == "aten.neg_"
    assert ids(op) == ([0], [0])


def test_an_out_argument_is_written_and_not_read(x: torch.Tensor) -> None:
    op = only(lambda a, out: torch.abs(a, out=out), x, torch.empty(2, 3))
    assert ids(op) == ([0], [1])


def test_copy_does_not_read_its_destination(x: torch.Tensor) -> None:
    op = only(lambda a, b: a.copy_(b), x, torch.zeros(2, 3))
    assert op.name == "aten.copy_"
    assert ids(op) == ([0], [1])


def test_python_scalars_are_no_tensors_but_zero_dimensional_tensors_are(x: torch.Tensor) -> None:
    assert ids(only(lambda a: a * 2.0, x)) == ([0], [1])
    assert ids(only(lambda a, b: a * b, x, torch.tensor(2.0))) == ([0, 1], [2])


def test_lists_are_flattened_in_schema_order(x: torch.Tensor) -> None:
    y = torch.zeros(2, 3)
    assert ids(only(lambda a, b: torch.cat([a, b, a]), x, y)) == ([0, 1, 0], [2])
    assert ids(only(lambda a, b: torch._foreach_add_([a, b], [b, b]), x, y)) == ([0, 1, 1, 1], [0, 1])


def test_several_results_are_several_outputs(x: torch.Tensor) -> None:
    op = only(lambda a: a.sort(dim=1), x)
    assert [(t.dtype, t.id) for t in op.outputs] == [("float32", 1), ("int64", 2)]


def test_arguments_that_are_updated_on_the_side_are_outputs(x: torch.Tensor) -> None:
    weight, bias, mean, var = (torch.ones(3) for _ in range(4))
    norm = torch.ops.aten._native_batch_norm_legit.default
    op = only(lambda a, *rest: norm(a, *rest, True, 0.1, 1e-5), x, weight, bias, mean, var)
    # input, weight, bias, mean, var in; the result, saved mean and inverse deviation, and both statistics out
    assert ids(op) == ([0, 1, 2, 3, 4], [5, 6, 7, 3, 4])


def test_views_share_the_storage_of_what_they_show(x: torch.Tensor) -> None:
    trace = sd.trace(lambda a: a[1:].view(-1).expand(2, 3).neg(), x)
    assert [ids(op) for op in trace.ops] == [([0], [0])] * 3 + [([0], [1])]


def test_a_freed_storage_does_not_lend_its_number_to_the_next_one() -> None:
    def program(a: torch.Tensor) -> None:
        for _ in range(50):
            a.neg()  # freed at once: its address is free for the next

    trace = sd.trace(program, torch.ones(1000))
    assert [t.id for op in trace.ops for t in op.outputs] == list(range(1, 51))


def test_bytes_of_storages_are_freed_during_the_trace() -> None:
    storages = []

    def program(a: torch.Tensor) -> None:
        b = a + 1
        storages.append(torch.multiprocessing.reductions.StorageWeakRef(b.untyped_storage()))
        del b
        storages.append(storages[0].expired())

    sd.trace(program, torch.ones(10))
    assert storages[1]


def test_weights_are_parameters_also_through_views_and_buffers_are_not() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4, 3))
            self.register_buffer("scale", torch.ones(4))

        def forward(self, a: torch.Tensor) -> torch.Tensor:
            return (a @ self.weight.t()) * self.scale

    trace = sd.trace(Scaled(), torch.ones(2, 3))
    assert [(op.name, [t.is_weight for t in op.inputs]) for op in trace.ops] == [
        ("aten.t", [True]),
        ("aten.mm", [False, True]),
        ("aten.mul", [False, False]),
    ]
    assert trace.weight_bytes == 4 * 3 * 4


def test_a_parameter_of_a_module_that_only_a_function_knows_is_a_weight() -> None:
    layer = nn.Linear(3, 4)
    trace = sd.trace(lambda a: layer(a), torch.ones(2, 3))
    assert trace.weight_bytes == (3 * 4 + 4) * 4


def test_only_declared_attributes_are_part_of_a_signature(x: torch.Tensor) -> None:
    trace = sd.trace(lambda a: (a.add(a, alpha=2), a.add(a, alpha=3)), x)
    assert len(trace) == 2
    assert len(trace.table) == 1


def test_rules_can_be_given_for_one_trace_only(x: torch.Tensor) -> None:
    from simdevice.costs import Rule

    rule = Rule(lambda s: Cost("elementwise", 1000 * s.attribute("dim")[0], 0, 0), attributes=("dim",))
    assert sd.trace(lambda a: a.sum(dim=(1,)), x, rules={"aten.sum": rule}).flops == 1000
    assert sd.trace(lambda a: a.sum(dim=(1,)), x).flops == 6


@torch.library.custom_op("simdevice_test::odd", mutates_args=())
def odd(a: torch.Tensor) -> torch.Tensor:
    return a + 1


@odd.register_fake
def _(a: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(a)


def test_an_operator_without_a_rule_is_named_charged_for_bytes_and_an_error_when_strict(x: torch.Tensor) -> None:
    trace = sd.trace(lambda a: odd(a), x)
    assert trace.unknown() == {"simdevice_test.odd": "no cost rule"}
    assert (trace.is_lower_bound, trace.flops, trace.bytes) == (True, 0, 2 * 2 * 3 * 4)
    with pytest.raises(UncostedOperatorError, match=r"^no cost rule for 'simdevice_test\.odd': give one as rules="):
        sd.trace(lambda a: odd(a), x, strict=True)
    assert (
        sd.trace(lambda a: odd(a), x, rules={"simdevice_test.odd": lambda s: Cost("elementwise", 6, 0, 0)}).flops == 6
    )


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, a: torch.Tensor) -> torch.Tensor:
        hidden: torch.Tensor = self.second(torch.relu(self.first(a)))
        return hidden


def by_scope(trace: Trace, phase: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for op in trace.ops:
        if op.phase == phase and op.category != "view":
            found.setdefault(op.scope, set()).add(op.name)
    return found


def test_scopes_are_module_paths() -> None:
    trace = sd.trace(nn.Sequential(Block(), nn.ReLU()), torch.ones(2, 4))
    assert by_scope(trace, "forward") == {
        "0.first": {"aten.addmm"},
        "0": {"aten.relu"},
        "0.second": {"aten.addmm"},
        "1": {"aten.relu"},
    }


def test_scopes_can_be_switched_off_and_change_nothing_else() -> None:
    model, a = nn.Sequential(Block(), nn.ReLU()), torch.ones(2, 4)
    off = sd.trace(model, a, scopes=False)
    assert off.scopes == ("",)
    assert names(off) == names(sd.trace(model, a))


def training_step(model: nn.Module, optimizer: torch.optim.Optimizer) -> Callable[[torch.Tensor], None]:
    def step(a: torch.Tensor) -> None:
        optimizer.zero_grad()
        F.mse_loss(model(a), torch.zeros(2, 4)).backward()
        optimizer.step()

    return step


@pytest.mark.parametrize("scopes", [True, False])
def test_a_training_step_has_three_phases_in_order(scopes: bool) -> None:
    model = Block()
    trace = sd.trace(training_step(model, torch.optim.SGD(model.parameters())), torch.ones(2, 4), scopes=scopes)
    phases = [op.phase for op in trace.ops]
    assert phases == sorted(phases, key=["forward", "backward", "optimizer"].index)
    assert set(phases) == {"forward", "backward", "optimizer"}
    # a linear layer of 2x4 by 4x4 costs 2*2*4*4 + 8 forward; its weight gradient as much without the
    # bias; the second layer also passes a gradient on
    products = [(op.phase, op.flops) for op in trace.ops if op.category == "matmul"]
    assert products == [("forward", 72)] * 2 + [("backward", 64)] * 3


def test_backward_operators_have_the_scope_of_their_forward_call() -> None:
    model = Block()
    found = by_scope(sd.trace(training_step(model, torch.optim.SGD(model.parameters())), torch.ones(2, 4)), "backward")
    assert found["first"] == {"aten.mm", "aten.sum"}
    assert found["second"] == {"aten.mm", "aten.sum"}
    assert "aten.threshold_backward" in found[""]


def test_optimizer_updates_write_weights() -> None:
    model = Block()
    optimizer = torch.optim.SGD(model.parameters(), foreach=True)
    (update,) = [
        op
        for op in sd.trace(training_step(model, optimizer), torch.ones(2, 4)).ops
        if op.phase == "optimizer" and op.category != "view"
    ]
    assert update.name == "aten._foreach_add_"
    assert all(t.is_weight for t in update.outputs)


def test_a_recomputed_forward_is_backward_work_of_the_same_module() -> None:
    from torch.utils.checkpoint import checkpoint

    model = Block()

    def step(a: torch.Tensor) -> None:
        checkpoint(model, a, use_reentrant=False).sum().backward()

    trace = sd.trace(step, torch.ones(2, 4, requires_grad=True))
    again = [op.scope for op in trace.ops if op.name == "aten.addmm" and op.phase == "backward"]
    assert again == ["first"]  # recomputation stops where no more saved tensor is missing


def test_a_second_outermost_module_is_named_by_its_class() -> None:
    model, loss = Block(), nn.MSELoss()
    trace = sd.trace(lambda a: loss(model(a), a), torch.ones(2, 4))
    assert set(trace.scopes) >= {"first", "second", "MSELoss"}
    assert trace.ops[-1].scope == "MSELoss"


def no_hooks() -> bool:
    hooks = torch.nn.modules.module
    return not hooks._global_forward_hooks and not hooks._global_forward_pre_hooks


def test_an_exception_passes_through_and_leaves_no_hook_behind() -> None:
    def broken(a: torch.Tensor) -> None:
        Block()(a)
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match=r"^mine$"):
        sd.trace(broken, torch.ones(2, 4))
    assert no_hooks()
    assert sd.trace(torch.neg, torch.ones(2)).ops[0].scope == ""


def test_an_operator_that_fails_is_no_row() -> None:
    def program(a: torch.Tensor) -> torch.Tensor:
        with pytest.raises(RuntimeError):
            torch.mm(a, a)
        return a.neg()

    assert names(sd.trace(program, torch.ones(2, 3))) == ["aten.neg"]


def test_threads_do_not_mix() -> None:
    """One thread trains, another traces: neither its operators nor its modules nor its optimizer show."""
    model, other = Block(), Block()
    started, go_on = threading.Event(), threading.Event()

    def train() -> None:
        step = training_step(other, torch.optim.Adam(other.parameters()))
        started.wait()
        step(torch.ones(2, 4))
        go_on.set()

    worker = threading.Thread(target=train)
    worker.start()

    def program(a: torch.Tensor) -> torch.Tensor:
        hidden = model.first(a)
        started.set()
        go_on.wait()
        return torch.relu(hidden)

    trace = sd.trace(program, torch.ones(2, 4))
    worker.join()
    assert [(op.name, op.phase) for op in trace.ops if op.category != "view"] == [
        ("aten.addmm", "forward"),
        ("aten.relu", "forward"),
    ]


def test_inference_mode_gives_the_operators_of_no_grad() -> None:
    layer, a = nn.Linear(3, 4), torch.ones(2, 5, 3)
    usual = names(sd.trace(layer, a))
    with torch.inference_mode():
        assert names(sd.trace(lambda t: layer(t), a)) == usual


def test_control_flow_shows_the_branch_that_runs() -> None:
    def program(a: torch.Tensor) -> Any:
        return torch.cond(a.sum() > 0, lambda t: t.sin(), lambda t: t.cos(), (a,))

    assert names(sd.trace(program, torch.ones(3)))[-1] == "aten.sin"


def test_a_compiled_function_shows_the_operators_it_would_run_eagerly() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(lambda t: t.sin().cos(), backend="eager")
    assert names(sd.trace(compiled, torch.ones(3))) == ["aten.sin", "aten.cos"]


def test_a_tensor_subclass_shows_its_inner_operators() -> None:
    from torch.testing._internal.two_tensor import TwoTensor

    pair = TwoTensor(torch.ones(2, 2), torch.zeros(2, 2))
    assert [ids(op) for op in sd.trace(lambda: pair @ pair).ops] == [([0, 0], [1]), ([2, 2], [3])]


def test_a_tensor_without_a_storage_is_untracked() -> None:
    indices, values = torch.tensor([[0, 1], [1, 0]]), torch.ones(2)
    dense = sd.trace(
        lambda i, v: torch.sparse_coo_tensor(i, v, (2, 2), check_invariants=False).to_dense(), indices, values
    )
    assert ids(dense.ops[-1])[0] == [-1]


class Convolutional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.norm, self.head = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Linear(8, 10)

    def forward(self, a: torch.Tensor) -> torch.Tensor:
        features = F.max_pool2d(torch.relu(self.norm(self.convolution(a))), 2)
        logits: torch.Tensor = self.head(features.mean((2, 3)))
        return logits


def recurrent_free_models() -> list[tuple[nn.Module, torch.Tensor]]:
    return [
        (Convolutional().eval(), torch.ones(2, 3, 8, 8)),
        (nn.Sequential(Block(), nn.LayerNorm(4), nn.GELU()).eval(), torch.ones(2, 4)),
        (nn.EmbeddingBag(10, 4).eval(), torch.ones(2, 3, dtype=torch.int64)),
    ]


@pytest.mark.parametrize("which", range(3))
def test_real_fake_and_meta_tensors_give_the_same_operators(which: int) -> None:
    model, a = recurrent_free_models()[which]
    real = sd.trace(model, a)
    fake = sd.trace(model, a, attention="fused")
    meta = sd.trace(model.to("meta"), a.to("meta"))
    assert [op.signature for op in fake.ops] == [op.signature for op in real.ops]
    assert fake.rows == real.rows
    assert (real.origin.device, fake.origin.device, meta.origin.device) == ("cpu", "cpu (no data)", "meta")
    # Meta tensors take other ways through composite kernels; the arithmetic is the same.
    assert (meta.flops_in("matmul", "convolution"), meta.weight_bytes) == (
        real.flops_in("matmul", "convolution"),
        real.weight_bytes,
    )


def test_fake_tensors_leave_the_module_as_it_was_also_after_an_error() -> None:
    model = Convolutional()
    before = {name: id(t) for name, t in [*model.named_parameters(), *model.named_buffers()]}
    sd.trace(model, torch.ones(1, 3, 8, 8), attention="fused")
    with pytest.raises(RuntimeError):
        sd.trace(model, torch.ones(1, 4, 8, 8), attention="fused")
    assert {name: id(t) for name, t in [*model.named_parameters(), *model.named_buffers()]} == before
    assert model(torch.ones(1, 3, 8, 8)).shape == (1, 10)


def test_a_function_over_real_tensors_of_its_own_says_what_fake_ones_need() -> None:
    layer = nn.Linear(4, 4)
    with pytest.raises(CaptureError, match=r"^the program uses real tensors that are not among its inputs, "):
        sd.trace(lambda x: layer(x), torch.ones(2, 4), attention="fused")


def test_tied_parameters_stay_one_weight_under_fake_tensors() -> None:
    first, second = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)
    second.weight = first.weight
    trace = sd.trace(nn.Sequential(first, second), torch.ones(2, 4), attention="fused")
    assert {t.id for op in trace.ops for t in op.inputs if t.is_weight} == {0}


def test_the_origin_says_where_a_trace_came_from(x: torch.Tensor) -> None:
    origin = sd.trace(torch.neg, x).origin
    assert (origin.frontend, origin.device) == ("dispatch", "cpu")
    assert dict(origin.versions)["torch"] == torch.__version__
    assert origin.capture_s > 0
    assert origin.flop_counter is None


def test_flop_counter_mode_sees_the_same_products(x: torch.Tensor) -> None:
    trace = sd.trace(lambda a: a @ a.t(), x, flop_counter=True)
    assert trace.origin.flop_counter == trace.matmul_flops == 2 * 2 * 3 * 2


def test_unknown_front_ends_and_fakes_name_the_nearest(x: torch.Tensor) -> None:
    with pytest.raises(UnknownNameError, match=r"^unknown front end 'dispatc': did you mean 'dispatch'\?$"):
        sd.trace(torch.neg, x, frontend="dispatc")
    with pytest.raises(UnknownNameError, match=r"^unknown kind of attention 'gpu': expected one of fused, math$"):
        sd.trace(torch.neg, x, attention="gpu")
