from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
from small_models import NAMES, SCORES, arithmetic, lstm, small
from torch import nn

import simdevice as sd
from simdevice.errors import CaptureError, UnknownNameError
from simdevice.frontends import Workload
from simdevice.records import Trace


def export(*args: Any, **kwargs: Any) -> Trace:
    return sd.trace(*args, frontend="export", **kwargs)


@cache
def exported_on_meta(name: str) -> Trace:
    return export(small(name, "meta"), flop_counter=True)


@pytest.mark.parametrize("name", NAMES)
def test_export_and_dispatch_agree_on_products_and_weights(name: str) -> None:
    by_dispatch, by_export = sd.trace(small(name, "meta")), exported_on_meta(name)
    assert arithmetic(by_export, SCORES[name]) == arithmetic(by_dispatch, SCORES[name])
    assert by_export.unknown() == {}


@pytest.mark.parametrize("name", NAMES)
def test_they_agree_on_a_cpu_too_where_dispatch_sees_fused_attention(name: str) -> None:
    workload = small(name, "cpu")
    by_dispatch = sd.trace(workload)
    assert (by_dispatch.flops_in("attention") > 0) == (name != "cnn")
    assert arithmetic(export(workload), SCORES[name]) == arithmetic(by_dispatch, SCORES[name])


@pytest.mark.parametrize("name", NAMES)
def test_flop_counter_mode_agrees_with_the_exported_graph(name: str) -> None:
    trace = exported_on_meta(name)
    counter = trace.origin.flop_counter
    assert counter is not None
    # it leaves out the biases: 1 per output of each product that has one
    biases = sum(
        op.outputs[0].numel
        for op in trace.ops
        if op.name == "aten.addmm" or (op.name == "aten.convolution" and len(op.inputs) > 2)
    )
    assert trace.flops_in("matmul", "convolution") == counter + biases


def test_an_lstm_costs_the_same_flops_whole_or_in_steps() -> None:
    whole, steps = sd.trace(lstm("cpu")), export(lstm("cpu"))
    assert whole.flops == steps.flops
    # The fused kernel reads its weights once: per layer 128 x (16 or 32) + 128 x 32 + 2 x 128 elements of 4 bytes.
    once = 4 * (128 * 16 + 128 * 32 + 2 * 128 * 32 + 4 * 128)
    assert whole.weight_bytes == once
    # In steps the hidden side (128 x 32 + 128) is read at each of 5; the first layer has 5 products of its input
    # side (128 x 16) in one call, a matrix per step.
    in_steps = 4 * (5 * 128 * 16 + 128 + 128 * 32 + 128 + 2 * 5 * (128 * 32 + 128))
    assert steps.weight_bytes == in_steps


def test_tiny_cnn_is_fourteen_operators_and_its_published_multiply_adds() -> None:
    trace = export("tiny-cnn", attention="fused").without_views()
    assert len(trace) == 14
    # Torch_Sim_Frontend, docs/accel_spec.md: 2,802,304 multiply-adds. Biases: 1 per output of a convolution
    # (16 x 32 x 32 + 32 x 16 x 16 + 64 x 8 x 8) and of the head (10).
    biases = 16 * 32 * 32 + 32 * 16 * 16 + 64 * 8 * 8 + 10
    assert trace.flops_in("matmul", "convolution") == 2 * 2_802_304 + biases


def test_scopes_are_module_paths_as_dispatch_gives_them() -> None:
    traces = (sd.trace(small("llama", "meta")), exported_on_meta("llama"))
    paths = [{op.scope for op in trace.ops if op.category == "matmul"} for trace in traces]
    assert "model.layers.1.mlp.down_proj" in paths[1]
    assert paths[0] == paths[1]
    assert {op.scope for op in export(nn.Linear(1, 1), torch.ones(1, 1), scopes=False).ops} == {""}


def test_views_share_storages_and_views_of_weights_are_weights() -> None:
    linear = nn.Linear(4, 3, bias=False)
    view, product = (op for op in export(linear, torch.ones(2, 4)).ops)
    assert (view.name, product.name) == ("aten.permute", "aten.mm")
    assert view.inputs[0].id == view.outputs[0].id == product.inputs[1].id
    assert product.inputs[1].is_weight
    assert product.cost.weight_bytes == 4 * 3 * 4


def test_tied_parameters_are_one_storage_and_buffers_are_no_weights() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(8, 4)
            self.head = nn.Linear(4, 8, bias=False)
            self.head.weight = self.embedding.weight
            self.register_buffer("scale", torch.ones(4))

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            return self.head(self.embedding(tokens) * self.scale)  # type: ignore[no-any-return]

    ops = {op.name: op for op in export(Tied().eval(), torch.zeros(2, dtype=torch.int64)).ops}
    assert ops["aten.embedding"].inputs[0].id == ops["aten.permute"].inputs[0].id
    assert not ops["aten.mul"].inputs[1].is_weight


def test_a_split_gives_parts_of_its_input() -> None:
    trace = export(lambda x: torch.split(x, 2)[1] + 1, torch.ones(4))
    split, add = trace.ops
    assert split.category == "view"
    assert [t.id for t in split.outputs] == [split.inputs[0].id] * 2
    assert add.inputs[0].id == split.inputs[0].id


def test_a_conditional_shows_its_costliest_branch_and_says_so() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda v: v @ v, lambda v: v + 1, (x,))  # type: ignore[no-any-return]

    trace = export(program, torch.ones(4, 4))
    assert [op.name for op in trace.ops if op.category == "matmul"] == ["aten.mm"]
    assert not any(op.name == "aten.add" for op in trace.ops)
    assert any("costliest of 2 branches" in note for note in trace.origin.notes)


def test_the_cache_is_off_and_the_trace_says_so() -> None:
    assert exported_on_meta("llama").origin.path.startswith("key-value cache off")


def test_a_decode_step_needs_its_cache() -> None:
    model = small("llama", "meta").program
    assert isinstance(model, nn.Module)
    with pytest.raises(CaptureError, match="a decode step needs its cache"):
        export(model, decode=4)


def test_a_program_that_branches_on_data_is_one_line() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.sum() > 0 else x

    with pytest.raises(CaptureError, match=r"^torch\.export can't follow this program \(.*\): try 'dispatch'$"):
        export(program, torch.ones(2))


def test_a_size_that_follows_from_data_is_said() -> None:
    with pytest.raises(CaptureError, match="follows from data, not from shapes"):
        export(lambda x: torch.nonzero(x) + 1, torch.ones(3))


def test_an_unknown_kind_of_fake_tensor_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="unknown kind of attention 'gpu'"):
        export(Workload(nn.Linear(1, 1), (torch.ones(1, 1),)), attention="gpu")
