"""Bytes: what tiles load and store is what the cost rule says is read and written, and named excess, exactly."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
import torch
from onnx.backend.test.case.node import collect_testcases
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_modules import module_db
from torch.utils._pytree import tree_leaves

import simdevice as sd
from simdevice.costs import Costs
from simdevice.errors import SimdeviceError
from simdevice.frontends.dispatch import DispatchRecorder
from simdevice.hardware import AcceleratorSpec, load, load_link
from simdevice.lowering import Rates
from simdevice.lowering.excess import excess_bytes
from simdevice.lowering.tiling import blocking, cut
from simdevice.lowering.work import Blocks, work_of
from simdevice.records import FREE_CATEGORIES, Cost, Origin, Signature, TensorSpec, Trace

MACHINES = {
    "plain": ("edge-npu", {}),
    "small": ("edge-npu", {"buffer_bytes": "4 KiB"}),
    "published, small": ("published/edge-npu", {"buffer_bytes": "6000 B"}),
}


MANY = 20_000


def rates(machine: str) -> Rates:
    name, overrides = MACHINES[machine]
    spec = load(name, **overrides)
    assert isinstance(spec, AcceleratorSpec)
    return Rates.of(spec, load_link(spec.link))


def moved(signature: Signature, cost: Cost, machine: Rates) -> int | None:
    """Bytes loaded and stored; None where a tile can't fit, or there would be too many to count in a test."""
    stages = work_of(signature, cost)
    try:
        if any(blocking(stage, machine).tiles > MANY for stage in stages if isinstance(stage, Blocks)):
            return None
        tiles = [tile for stage in stages for tile in cut(stage, machine)]
    except SimdeviceError:
        return None
    return sum(operands + (result if store else 0) for _, _, store, operands, result, _, _ in tiles)


def check(signatures: Iterable[Signature]) -> int:
    """Every signature on every machine; how many were held against the closed form."""
    costs, held = Costs(), 0
    machines = [rates(name) for name in MACHINES]
    for signature in signatures:
        if signature.attribute("unresolved"):  # follows from data: the walk costs it with its reason
            continue
        cost = costs(signature)
        if cost.category in FREE_CATEGORIES | {"transfer"}:
            continue
        if cost.products:
            beside = sum(extra.flops for extra in cost.extras)
            assert cost.flops == sum(p.flops for p in cost.products) + beside, signature
        for machine in machines:
            total = moved(signature, cost, machine)
            if total is None:
                continue
            excess = excess_bytes(work_of(signature, cost), machine)
            assert total == cost.bytes + excess.total(), (signature, excess)
            assert all(count > 0 for cause, count in excess.items() if cause != "left out"), (signature, excess)
            assert excess["left out"] == 0 or not machine.all_operands
            held += 1
    return held


def sampled(samples: int, *, step: int, backward: bool) -> Iterator[Signature]:
    """What PyTorch's operator database calls (every `step`th), in float32 where an operator takes it."""
    for info in op_db[::step]:
        types = info.supported_dtypes("cpu")
        dtype = torch.float32 if torch.float32 in types else next(iter(types), None)
        if dtype is None:
            continue
        wants = backward and info.supports_autograd and dtype.is_floating_point
        try:
            inputs = list(info.sample_inputs("cpu", dtype, requires_grad=wants))[:samples]
        except (RuntimeError, ImportError, NotImplementedError):  # a sample needs a library that is not installed
            continue
        for sample in inputs:
            try:
                with DispatchRecorder(Costs(), scopes=False) as recorder:
                    results = info(sample.input, *sample.args, **sample.kwargs)
                    sums = [
                        t.abs().sum() for t in tree_leaves(results) if isinstance(t, torch.Tensor) and t.requires_grad
                    ]
                    if wants and sums:
                        torch.autograd.backward(sums)
            except (RuntimeError, AssertionError):  # sparse, nested, or of another device (jiterator)
                continue
            yield from recorder.finish(Origin("sample")).table.signatures


@pytest.mark.filterwarnings("ignore")  # the database's own samples warn
def test_operators_of_pytorch_move_their_bytes_and_named_excess() -> None:
    assert check(set(sampled(2, step=4, backward=False))) > 300


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_more_samples_and_their_gradients() -> None:
    assert check(set(sampled(8, step=1, backward=True))) > 15_000


def node_models(folder: Path, step: int) -> Iterator[Signature]:
    """What ONNX's own tests of each operator call (every `step`th of 1,884)."""
    for case in collect_testcases(None)[::step]:
        path = folder / f"{case.name}.onnx"
        path.write_bytes(case.model.SerializeToString())
        try:
            yield from sd.trace(str(path)).table.signatures
        except SimdeviceError:  # data decides a shape; the walk's own tests name these
            continue


@pytest.mark.filterwarnings("ignore")  # the cases compute their expectations with numpy, which warns
def test_node_models_of_onnx_move_their_bytes_and_named_excess(tmp_path: Path) -> None:
    assert check(set(node_models(tmp_path, 10))) > 300


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_all_node_models_of_onnx(tmp_path: Path) -> None:
    assert check(set(node_models(tmp_path, 1))) > 3000


@pytest.mark.parametrize("name", ["gpt2", "qwen2.5-0.5b", "tiny-cnn"])
def test_traces_of_models_move_their_bytes_and_named_excess(name: str) -> None:
    request = {} if name == "tiny-cnn" else {"tokens": 32}
    for attention in (None, "fused"):
        assert check(sd.trace(name, attention=attention, scopes=False, **request).table.signatures) > 20  # type: ignore[arg-type]


LOOK_UPS = {"nn.Embedding", "nn.EmbeddingBag"}
"""Read the rows that indices pick, never the table."""


@pytest.mark.filterwarnings("ignore")
def test_modules_of_pytorch_load_all_of_their_parameters() -> None:
    held = 0
    for info in module_db:
        if info.name in LOOK_UPS:
            continue
        for sample in info.module_inputs_func(
            info, device="cpu", dtype=torch.float32, requires_grad=False, training=False
        ):
            module = info.module_cls(*sample.constructor_input.args, **sample.constructor_input.kwargs).eval()
            if any(isinstance(p, torch.nn.parameter.UninitializedParameter) for p in module.parameters()):
                continue  # lazy: it has no size before the first call
            parameters = {p.data_ptr(): p.nbytes for p in module.parameters()}
            if not parameters or sample.forward_input is None:
                continue
            try:
                with torch.no_grad():
                    trace = sd.trace(
                        lambda *args, module=module, **kwargs: module(*args, **kwargs),
                        *sample.forward_input.args,
                        kwargs=sample.forward_input.kwargs,
                    )
            except RuntimeError as error:
                if "NestedTensorImpl" not in str(error):  # what a padded encoder makes in evaluation
                    raise
                continue
            assert weight_bytes(trace) >= sum(parameters.values()), (info.name, sample.constructor_input)
            held += 1
    assert held > 100


def weight_bytes(trace: Trace) -> int:
    """Bytes of weights that tiles load: of a product's operands as they are written out, else what its rule reads."""
    total = 0
    for op in trace.ops:
        loaded = {i: t.nbytes for i, t in enumerate(op.inputs) if t.is_weight}
        if op.cost.products:
            beside = op.cost.weight_bytes
            for product in op.cost.products:
                for places, own, whole in (
                    (product.a, product.a_bytes, product.a_loaded),
                    (product.b, product.b_bytes, product.b_loaded),
                ):
                    if places and places[0] in loaded:
                        total += whole
                        beside -= own
            total += beside
        else:
            total += op.cost.weight_bytes
    return total


def signature(name: str, inputs: list[TensorSpec], outputs: list[TensorSpec], **attributes: object) -> Signature:
    return Signature(name, tuple(inputs), tuple(outputs), tuple(attributes.items()))


def T(*shape: int, dtype: str = "float32") -> TensorSpec:
    return TensorSpec(shape, dtype)


def plain(of: Signature) -> int:
    total = moved(of, Costs(strict=True)(of), rates("plain"))
    assert total is not None
    return total


def test_experts_that_are_met_are_loaded() -> None:
    # 64 rows over 8 experts of 64 x 128: every matrix is met, 8 rows each
    call = signature("aten._grouped_mm", [T(64, 64), T(8, 64, 128), T(8, dtype="int32")], [T(64, 128)])
    cost = Costs()(call)
    assert [(p.batch, p.m, p.k, p.n) for p in cost.products] == [(8, 8, 64, 128)]
    # rows 16,384, matrices 262,144, ends 32; result 32,768
    assert plain(call) == 16_384 + 262_144 + 32 + 32_768


def test_experts_that_no_row_meets_are_not_weights_that_are_read() -> None:
    # 2 rows meet at most 2 of 8 experts of 64 x 128 floats: 65,536 bytes of weights
    stack = TensorSpec((8, 64, 128), "float32", is_weight=True)
    cost = Costs()(signature("aten._grouped_mm", [T(2, 64), stack, T(8, dtype="int32")], [T(2, 128)]))
    assert cost.weight_bytes == 2 * 64 * 128 * 4
    assert cost.bytes_read == 2 * 64 * 4 + 65_536 + 32
    # 11 rows over 8 experts: three of them meet 2 rows, five 1
    uneven = Costs()(signature("aten._grouped_mm", [T(11, 64), stack, T(8, dtype="int32")], [T(11, 128)]))
    assert [(p.batch, p.m) for p in uneven.products] == [(3, 2), (5, 1)]
    assert uneven.weight_bytes == stack.nbytes


def test_a_transposed_convolution_with_gaps_stores_all_of_its_result() -> None:
    # 2x2 kernels at stride 4: 10 x 10 pixels give 38 x 38 places, a part of which no kernel touches
    call = signature(
        "aten.convolution",
        [T(1, 6, 10, 10), T(6, 4, 2, 2)],
        [T(1, 8, 38, 38)],
        transposed=True,
        groups=2,
        stride=(4, 4),
    )
    (product,) = Costs()(call).products
    # two groups: 100 pixels, 3 channels deep, 4 channels x 2x2
    assert (product.batch, product.m, product.k, product.n) == (2, 100, 3, 16)
    # input 2,400, weight 384, result 46,208
    assert plain(call) == 2_400 + 384 + 46_208


def test_query_heads_that_share_a_key_head_load_it_once() -> None:
    # 8 query heads of 4 rows over 2 key heads of 64: 2 products of 16 rows
    query, cache = T(1, 8, 4, 16), T(1, 2, 64, 16)
    call = signature("aten.scaled_dot_product_attention", [query, cache, cache], [query])
    cost = Costs()(call)
    assert [(p.batch, p.m, p.k, p.n) for p in cost.products] == [(2, 16, 16, 64), (2, 16, 64, 16)]
    # beside the boundary only the scores move, stored and loaded again: 2 x (8 x 4 x 64) floats
    assert plain(call) == cost.bytes + 2 * 8 * 4 * 64 * 4


def test_heads_of_a_packed_attention_are_heads() -> None:
    """`MultiHeadAttention` over (batch, length, width) has the products of SDPA over the same heads."""
    wide, head = T(1, 128, 768), T(1, 12, 128, 64)
    given = ("query", "key", "value")
    packed = Costs()(signature("com.microsoft.MultiHeadAttention", [wide] * 3, [wide], given=given, num_heads=12))
    apart = Costs()(signature("aten.scaled_dot_product_attention", [head] * 3, [head]))
    assert [p.flops for p in packed.products] == [p.flops for p in apart.products]
    assert [(p.batch, p.m, p.k, p.n) for p in packed.products] == [(12, 128, 64, 128), (12, 128, 128, 64)]


def test_grouped_queries_in_one_tensor_read_it_and_the_cache() -> None:
    # (1, 4, (8 + 2 x 2) x 16) packed; past keys and values of 2 heads x 64 x 16
    query, past = T(1, 4, 192), T(1, 2, 64, 16)
    given = ("query", "past_key", "past_value")
    call = signature(
        "com.microsoft.GroupQueryAttention",
        [query, past, past],
        [T(1, 4, 128)],
        given=given,
        num_heads=8,
        kv_num_heads=2,
    )
    cost = Costs()(call)
    # without a present, a buffer that past and present share: 64 keys of which 4 are new, in the query's tensor
    assert cost.bytes_read == query.nbytes + 2 * (2 * 60 * 16 * 4)
    assert [(p.batch, p.m, p.k, p.n) for p in cost.products] == [(2, 16, 16, 64), (2, 16, 64, 16)]


def test_a_recurrent_layer_meets_its_matrices_once_for_all_inputs_and_once_a_step() -> None:
    # 5 steps of 3 rows, 10 wide, 7 units of 4 gates
    inputs = [T(5, 3, 10), T(28, 10), T(28, 7), T(28), T(28), T(1, 3, 7), T(1, 3, 7)]
    call = signature("aten.mkldnn_rnn_layer", inputs, [T(5, 3, 7), T(1, 3, 7), T(1, 3, 7), T(0)], mode=2)
    cost = Costs()(call)
    assert [(p.batch, p.m, p.k, p.n) for p in cost.products] == [(1, 15, 10, 28), (5, 3, 7, 28)]
    assert {extra.name: extra.flops for extra in cost.extras} == {"bias": 15 * 56, "gates": 15 * 7 * 13}
    excess = excess_bytes(work_of(call, cost), rates("plain"))
    # the matrix of the states four times more; pre-activations stored, states read, gates beside the states written
    assert excess == {"shared": 4 * 28 * 7 * 4 + (420 - 105) * 4, "inside": (15 * 28 + 15 * 7) * 4}


def test_packed_sequences_share_their_rows_out_over_the_steps() -> None:
    # 7 rows in 3 steps: one of 3 rows and two of 2; the batch sizes are no state
    parameters = [T(28, 10), T(28, 7), T(28), T(28)]
    inputs = [T(7, 10), T(3, dtype="int64"), T(1, 3, 7), T(1, 3, 7), *parameters]
    cost = Costs()(signature("aten.lstm", inputs, [T(7, 7)], bidirectional=False))
    assert [(p.batch, p.m, p.k, p.n) for p in cost.products] == [(1, 7, 10, 28), (1, 3, 7, 28), (2, 2, 7, 28)]


def test_a_projection_is_a_product_of_its_own() -> None:
    # 4 steps of 2 rows, 5 wide; 6 units projected to 3
    parameters = [T(24, 5), T(24, 3), T(24), T(24), T(3, 6)]
    cost = Costs()(signature("aten.lstm", [T(4, 2, 5), T(1, 2, 3), T(1, 2, 6), *parameters], [T(4, 2, 3)]))
    assert [(p.batch, p.m, p.k, p.n) for p in cost.products] == [(1, 8, 5, 24), (4, 2, 3, 24), (4, 2, 6, 3)]


def test_a_biased_product_loads_its_bias_once_however_it_is_cut() -> None:
    call = signature("aten.addmm", [T(96), T(64, 32), T(32, 96)], [T(64, 96)])
    cost = Costs()(call)
    for name in ("plain", "small"):
        machine = rates(name)
        total, excess = moved(call, cost, machine), excess_bytes(work_of(call, cost), machine)
        assert total == cost.bytes + excess["blocks"]
    published = excess_bytes(work_of(call, cost), rates("published, small"))
    assert published["left out"] == -96 * 4


def test_gradients_of_a_grouped_transposed_convolution() -> None:
    # x (1, 4, 5, 5), weight (4, 3, 2, 2) in 2 groups, y (1, 6, 6, 6): dx gathers 3 x 2x2 of the gradient, 2 channels
    grad, source, weight = T(1, 6, 6, 6), T(1, 4, 5, 5), T(4, 3, 2, 2)
    call = signature(
        "aten.convolution_backward",
        [grad, source, weight],
        [source, weight],
        transposed=True,
        groups=2,
        output_mask=(True, True, False),
    )
    products = Costs()(call).products
    assert [(p.batch, p.m, p.k, p.n) for p in products] == [(2, 25, 12, 2), (2, 2, 25, 12)]
    assert [p.windowed for p in products] == ["a", "b"]
    # both cost the forward: 4 x 25 inputs x 12 weights x 2
    assert [p.flops for p in products] == [2_400, 2_400]


def test_a_convolution_that_skips_pixels_reads_its_picture_on_every_machine() -> None:
    # 1x1 at stride 2 touches a quarter of 64 pixels; rows are read, not pixels: 4 x 64 floats, and 8 x 4 weights
    call = signature("aten.convolution", [T(1, 4, 8, 8), T(8, 4, 1, 1)], [T(1, 8, 4, 4)], stride=(2, 2), groups=1)
    cost = Costs()(call)
    assert cost.bytes_read == 1_024 + 128
    assert plain(call) == cost.bytes
    (product,) = cost.products
    assert product.window is not None
    assert (product.window.size, product.window.result, product.window.stride) == ((8, 8), (4, 4), (2, 2))
    assert (product.a_bytes, product.a_loaded) == (256, 256)


def test_excess_by_cause_and_by_hand() -> None:
    # (8, 32) x (32, 96) where a tile may use 2 KiB: blocks of 8 x 12, 16 deep. The left, 1,024 bytes, is read 8 times
    product = signature("aten.mm", [T(8, 32), T(32, 96)], [T(8, 96)])
    assert excess_bytes(work_of(product, Costs()(product)), rates("small")) == {"blocks": 7 * 1024}
    # dx is scattered from 2 x 36 x 18 floats onto 1,024 bytes; dw reads as many windows, and the 864 of the gradient
    # again
    grad, source, weight = T(1, 6, 6, 6), T(1, 4, 8, 8), T(6, 2, 3, 3)
    call = signature(
        "aten.convolution_backward",
        [grad, source, weight],
        [source, weight],
        groups=2,
        output_mask=(True, True, False),
    )
    excess = excess_bytes(work_of(call, Costs()(call)), rates("plain"))
    assert excess == {"windows": 2 * (5184 - 1024), "shared": 864}
