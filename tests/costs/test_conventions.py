"""One example of each convention, worked out by hand; all tensors are float32 unless said."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from simdevice.records import CATEGORIES, TensorSpec

X = torch.arange(24.0).reshape(4, 6) + 1
ROW = torch.ones(6)
INDEX = torch.tensor([0, 2, 2])

ELEMENTWISE = [
    (lambda: X + ROW, 24),  # broadcast: as many as outputs
    (lambda: X.clone().add_(1), 24),  # in place as out of place
    (lambda: F.gelu(X), 24),
    (lambda: torch.where(X > 3, X, 0.0), 48),  # the comparison and the choice
    (lambda: X.masked_fill(X > 3, 0.0), 48),
    (lambda: torch.maximum(X, X), 24),
    (lambda: torch.max(X, X), 24),
    (lambda: F.glu(X), 12),  # half as many outputs
    (lambda: torch.native_dropout(X, 0.5, True), 48),  # result and mask
    (lambda: torch.bernoulli(X / 24), 48),  # the division and the draw
    (lambda: torch._foreach_add([X, ROW], 1.0), 30),
    (lambda: F.mse_loss(X, X, reduction="none"), 24),
    (lambda: torch.fake_quantize_per_tensor_affine(X, 0.1, 0, -128, 127), 48),  # result and mask
]

REDUCTION = [
    (lambda: X.sum(), 24),
    (lambda: X.mean(0), 24),
    (lambda: X.max(dim=1), 24),
    (lambda: X.argmax(), 24),
    (lambda: X.cumsum(1), 24),
    (lambda: X.var(1), 24),
    (lambda: torch.linalg.vector_norm(X), 24),
    (lambda: torch._foreach_norm([X, ROW]), 30),
    (lambda: F.mse_loss(X, X), 24),
    (lambda: torch.equal(X, X), 48),
    (lambda: torch.cdist(X, X), 192),  # 16 pairs of rows, 6 elements, a difference and an accumulation
]


@pytest.mark.parametrize(("program", "flops"), ELEMENTWISE)
def test_elementwise_counts_outputs(ops, program, flops):
    assert sum(o.flops for o in ops(program) if o.category == "elementwise") == flops


@pytest.mark.parametrize(("program", "flops"), REDUCTION)
def test_reduction_counts_inputs(ops, program, flops):
    (one,) = ops(program)
    assert (one.category, one.flops) == ("reduction", flops)


def test_pooling_counts_the_pooled_input_both_ways(ops):
    image = torch.ones(1, 2, 8, 8, requires_grad=True)
    for pool in (F.max_pool2d, F.avg_pool2d):
        rows = [o for o in ops(lambda pool=pool: pool(image, 2).sum().backward()) if o.category == "pooling"]
        assert [o.flops for o in rows] == [128, 128]  # 1*2*8*8
    # the average's backward reads the 32 gradients only, 4 bytes each
    assert rows[1].cost.bytes_read == 128


def test_softmax_counts_five_both_ways(ops):
    scores = X.clone().requires_grad_()
    rows = [o for o in ops(lambda: scores.softmax(-1).sum().backward()) if o.category == "softmax"]
    assert [(o.name, o.flops) for o in rows] == [("aten._softmax", 120), ("aten._softmax_backward_data", 120)]  # 5 * 24


@pytest.mark.parametrize(
    "layer",
    [torch.nn.LayerNorm(6), torch.nn.GroupNorm(3, 6), torch.nn.BatchNorm1d(6), torch.nn.BatchNorm1d(6).eval()],
    ids=["layer", "group", "batch", "batch eval"],
)
def test_norms_count_five_forward_and_ten_backward(ops, layer):
    source = X.clone().requires_grad_()
    rows = [o for o in ops(lambda: layer(source).sum().backward()) if o.category == "norm"]
    assert [o.flops for o in rows] == [120, 240]  # 5 * 24, 2 * 5 * 24


@pytest.mark.parametrize(
    "program",
    [
        lambda: X.clone(),
        lambda: X.to(torch.float16),
        lambda: torch.cat([X, X]),
        lambda: torch.stack([X, X]),
        lambda: X.flip(0),
        lambda: X.repeat(2, 1),
        lambda: F.pad(X, (1, 1)),
        lambda: X.tril(),
        lambda: X.t().contiguous(),
    ],
)
def test_copies_move_inputs_and_outputs_and_compute_nothing(ops, program):
    (one,) = ops(program)
    assert (one.category, one.flops) == ("movement", 0)
    assert one.cost.bytes_read == sum(t.nbytes for t in one.inputs)
    assert one.cost.bytes_written == sum(t.nbytes for t in one.outputs)


def test_copy_reads_its_source_only(op):
    one = op(torch.empty(4, 6).copy_, ROW.to(torch.float64))
    # 6 doubles read, 24 floats written
    assert (one.name, one.cost.bytes_read, one.cost.bytes_written) == ("aten.copy_", 48, 96)


@pytest.mark.parametrize(
    "program",
    [
        lambda: torch.zeros(4, 6),
        lambda: torch.arange(24.0),
        lambda: torch.zeros_like(X),
        lambda: torch.full((4, 6), 2.0),
        lambda: torch.randn(4, 6),
        lambda: X.new_ones(4, 6),
    ],
)
def test_creation_only_writes(ops, program):
    created = [o for o in ops(program) if o.category == "creation"]
    assert [(o.flops, o.cost.bytes_read) for o in created] == [(0, 0)] * len(created)
    assert created[-1].cost.bytes_written == 96


def test_overwriting_in_place_only_writes(ops):
    target = torch.ones(4, 6)
    for fill in (target.zero_, target.normal_, lambda: target.fill_(3), lambda: target.bernoulli_(0.5)):
        (one,) = ops(fill)
        assert (one.category, one.cost.bytes_read, one.cost.bytes_written) == ("creation", 0, 96)


@pytest.mark.parametrize(
    "program",
    [
        lambda: X.view(24),
        lambda: X.t(),
        lambda: X[1:, ::2],
        lambda: X.expand(2, 4, 6),
        lambda: X.split(2),
        lambda: X.unbind(),
        lambda: X.detach(),
        lambda: torch.empty(4, 6),
        lambda: torch.empty_like(X),
    ],
)
def test_views_and_allocations_are_free(ops, program):
    assert ops(program) == []


def test_a_look_up_reads_indices_and_rows_never_the_table(op):
    one = op(F.embedding, torch.tensor([[1, 2, 3]]), torch.ones(1000, 6))
    # 3 indices of 8 bytes, 3 rows of 6 floats; as many written
    assert (one.category, one.flops, one.cost.bytes_read, one.cost.bytes_written) == ("gather", 0, 96, 72)


@pytest.mark.parametrize(
    ("program", "read"),
    [
        (lambda: X[INDEX], 24 + 72),  # 3 indices, 3 rows of 6 floats
        (lambda: X.index_select(0, INDEX), 24 + 72),
        (lambda: X.gather(0, INDEX[None]), 24 + 12),  # 3 elements
        (lambda: X.take(INDEX), 24 + 12),
    ],
)
def test_indexing_reads_what_it_picks(ops, program, read):
    (one,) = ops(program)
    assert (one.category, one.flops, one.cost.bytes_read) == ("gather", 0, read)


def test_rows_looked_up_in_a_parameter_are_weight_bytes(cost):
    table = TensorSpec((1000, 6), "float32", is_weight=True)
    one = cost("aten.embedding", [table, TensorSpec((3,), "int64")], [(3, 6)])
    assert one.weight_bytes == 72


@pytest.mark.parametrize(
    ("program", "adds"),
    [
        (lambda: X.index_add(0, INDEX, torch.ones(3, 6)), 18),
        (lambda: X.scatter_add(0, INDEX[None], torch.ones(1, 3)), 3),
        (lambda: X.scatter(0, INDEX[None], 1.0), 0),
        (lambda: X.scatter(0, INDEX[None], 1.0, reduce="add"), 3),
        (lambda: X.index_copy(0, INDEX, torch.ones(3, 6)), 0),
        (lambda: X.index_put((INDEX,), torch.ones(3, 6)), 0),
        (lambda: X.index_put((INDEX,), torch.ones(3, 6), accumulate=True), 18),
    ],
)
def test_a_scatter_that_accumulates_adds_once_per_value(ops, program, adds):
    (one,) = [o for o in ops(program) if o.category != "creation"]
    assert (one.category, one.flops) == ("gather", adds)


def test_embedding_bag_adds_each_row_it_picks(op):
    one = op(F.embedding_bag, torch.tensor([1, 2, 3, 4]), torch.ones(1000, 6), torch.tensor([0, 2]))
    # 4 rows of 6 added; read: 4 indices and 2 offsets of 8 bytes, 24 floats
    assert (one.flops, one.cost.bytes_read) == (24, 144)


def test_sample_weights_multiply_each_row_they_pick(op):
    indices, offsets, weights = torch.tensor([1, 2, 3, 4]), torch.tensor([0, 2]), torch.ones(4)
    one = op(F.embedding_bag, indices, torch.ones(1000, 6), offsets, mode="sum", per_sample_weights=weights)
    # 4 rows of 6, multiplied and added; 4 weights more are read
    assert (one.flops, one.cost.bytes_read) == (48, 160)


def test_cross_entropy_picks_one_log_probability_per_target(ops):
    logits = torch.randn(5, 7, requires_grad=True)
    rows = ops(lambda: F.cross_entropy(logits, torch.tensor([0, 1, 2, 3, 4])).backward())
    loss, back = [o for o in rows if "nll_loss" in o.name]
    # 5 targets of 8 bytes and 5 log-probabilities; backward writes 35 and reads no logit: 40 + 2 scalars
    assert (loss.flops, loss.cost.bytes_read) == (5, 60)
    assert (back.flops, back.cost.bytes_read, back.cost.bytes_written) == (5, 48, 140)


def test_item_reads_one_element_towards_the_host(op):
    one = op(torch.ones(()).item)
    assert (one.category, one.cost.bytes_read, one.cost.bytes_written) == ("transfer", 4, 0)


@pytest.mark.parametrize(
    ("program", "flops"),
    [
        (lambda: X.sort(), 72),  # 24 elements, ceil(log2 6) = 3
        (lambda: X.topk(4), 72),  # 24 * (1 + log2 4)
        (lambda: X.topk(1), 24),
        (lambda: torch.searchsorted(ROW, X), 72),  # 24 values, 7 places: ceil(log2 7) = 3
        (lambda: X.unique(), 144),  # 24 * (1 + ceil(log2 24) = 5)
    ],
)
def test_sorting_counts_comparisons(ops, program, flops):
    assert sum(o.flops for o in ops(program) if o.category == "sort") == flops


@pytest.mark.parametrize(
    ("program", "flops"),
    [
        (lambda: torch.fft.fft(torch.ones(3, 8, dtype=torch.complex64)), 360),  # 3 lines of 5 * 8 * log2 8
        (lambda: torch.fft.rfft(torch.ones(3, 8)), 180),  # half
        (lambda: torch.fft.irfft(torch.ones(3, 5, dtype=torch.complex64)), 180),  # 8 real outputs per line
        (lambda: torch.fft.fft2(torch.ones(4, 8, dtype=torch.complex64)), 800),  # 5 * 32 * (2 + 3)
    ],
)
def test_transforms_count_five_n_log_n(ops, program, flops):
    assert sum(o.flops for o in ops(program) if o.category == "fft") == flops


def test_resampling_counts_two_per_tap(ops):
    image = torch.ones(1, 3, 4, 4)
    modes = {"nearest": 0, "bilinear": 4, "bicubic": 16}
    for mode, taps in modes.items():
        (one,) = ops(F.interpolate, image, size=(8, 8), mode=mode)
        assert one.flops == 2 * taps * 3 * 64


def test_antialiasing_widens_the_filter_when_it_shrinks(ops):
    (one,) = ops(F.interpolate, torch.ones(1, 1, 8, 8), size=(4, 4), mode="bilinear", antialias=True)
    # columns: 8*4 values of 2*8/4 = 4 taps; rows: 4*4 values of 4 taps; 2 * (128 + 64)
    assert one.flops == 384


@pytest.mark.parametrize(
    ("program", "flops"),
    [
        (lambda a: torch.linalg.cholesky(a), 72),  # 6^3 / 3
        (lambda a: torch.linalg.inv(a), 432),  # 2 * 6^3
        (lambda a: torch.linalg.solve(a, torch.ones(6, 2)), 288),  # 2 * 6^3 / 3 + 2 * 6^2 * 2
        (lambda a: torch.linalg.qr(a), 576),  # 2 * (2*6^3 - 2*6^3/3)
    ],
)
def test_factorisations_count_the_textbook_term(ops, program, flops):
    rows = ops(program, torch.eye(6))
    assert sum(o.flops for o in rows if o.category == "linalg") == flops


def test_every_category_of_a_rule_is_a_known_one(ops):
    for program, _ in ELEMENTWISE + REDUCTION:
        assert {o.category for o in ops(program)} <= set(CATEGORIES)


def test_a_copy_reads_its_source_as_weights_and_an_overwritten_tensor_not_at_all(cost):
    source, target = TensorSpec((4, 5), "float32", True), (4, 5)
    for name, inputs in (("aten.copy_", [target, source]), ("aten._copy_from", [source, target])):
        one = cost(name, inputs, [target])
        assert (one.bytes_read, one.bytes_written, one.weight_bytes) == (80, 80, 80)


def test_gradients_of_padding_are_summed_and_the_shape_is_not_read(cost):
    # 1 x 9 gradients over 1 x 5 places
    one = cost("aten.reflection_pad1d_backward", [(1, 9), (1, 5)], [(1, 5)])
    assert (one.flops, one.bytes_read, one.bytes_written) == (9, 36, 20)


def test_statistics_are_merged_by_the_mean(cost):
    # input (2, 3, 8), means and deviations of 4 devices x 3: 5 for each of 12 means
    assert cost("aten.batch_norm_gather_stats", [(2, 3, 8), (4, 3), (4, 3)], [(3,), (3,)]).flops == 60


def test_a_shrinking_filter_costs_the_same_backward(cost):
    # rows of 5 shrink from 7 to 4 columns by 4 taps (2 x 7 / 4 = 3.5), then 5 rows to 3 by 4 (3.33): 5 x 4, 3 x 4
    assert cost("aten._upsample_bilinear2d_aa", [(1, 1, 5, 7)], [(1, 1, 3, 4)]).flops == 2 * (20 * 4 + 12 * 4)
    assert cost("aten._upsample_bilinear2d_aa_backward", [(1, 1, 3, 4)], [(1, 1, 5, 7)]).flops == 2 * (80 + 48)


def test_q_k_and_v_gain_their_bias_and_q_is_scaled(cost):
    # (2, 6, 96) in 4 heads of 8: 3 x 384 additions, 384 multiplications
    by_head = (2, 4, 6, 8)
    assert cost("aten._transform_bias_rescale_qkv", [(2, 6, 96), (96,)], [by_head] * 3).flops == 4 * 384
