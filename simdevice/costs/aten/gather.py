"""Look-ups and scatters by index: a look-up reads its indices and the rows it picks, never the table.

A scatter that accumulates adds once per element of its source; all else is 0 FLOPs.
"""

from __future__ import annotations

from simdevice.costs.arithmetic import gather, lookup, pick
from simdevice.costs.aten._common import aten
from simdevice.costs.registry import register
from simdevice.records import Cost, Signature
from simdevice.records.dtypes import is_float

__all__: list[str] = []


register(
    *aten("_unsafe_index _unsafe_masked_index embedding gather index index_select masked_select take take_along_dim")
)(pick)

COMPACTED = aten("nonzero nonzero_static repeat_interleave")

PLACED = aten("index_copy index_fill masked_scatter max_unpool2d max_unpool3d value_selecting_reduction_backward")
"""Values go to the places that indices name; the rest is zero, or a copy of self."""

register(*COMPACTED, *PLACED)(gather)


@register(*aten("_index_put_impl _unsafe_index_put index_put put"), attributes=("accumulate",))
def put(signature: Signature) -> Cost:
    """The values are the last input."""
    adds = signature.inputs[-1].numel if signature.attribute("accumulate") else 0
    return gather(signature, adds)


@register("aten._unsafe_masked_index_put_accumulate")
def put_accumulate(signature: Signature) -> Cost:
    """Always accumulates; the values are the last input."""
    return gather(signature, signature.inputs[-1].numel)


@register("aten.scatter", attributes=("reduce",))
def scatter(signature: Signature) -> Cost:
    """self, index, and perhaps a source; accumulates only where `reduce` says how."""
    adds = signature.inputs[1].numel if signature.attribute("reduce") is not None else 0
    return gather(signature, adds)


@register(*aten("scatter_add scatter_reduce"))
def scatter_accumulate(signature: Signature) -> Cost:
    """One combination per index."""
    return gather(signature, signature.inputs[1].numel)


@register(*aten("index_add index_reduce"))
def index_accumulate(signature: Signature) -> Cost:
    """One combination per element of the source, the last input."""
    return gather(signature, signature.inputs[-1].numel)


@register("aten.embedding_dense_backward")
def embedding_backward(signature: Signature) -> Cost:
    """Adds each row of the gradient into a table that is written whole."""
    return gather(signature, signature.inputs[0].numel)


# Bags of embeddings: rows are picked and reduced in one go


def _flops_per_element(signature: Signature) -> int:
    """One addition per element picked; one multiplication more where each sample has a weight, the only tensor of
    numbers among indices, offsets and sizes."""
    return 2 if any(is_float(t.dtype) for t in signature.inputs[1:]) else 1


@register(*aten("_embedding_bag _embedding_bag_forward_only embedding_bag"))
def embedding_bag(signature: Signature) -> Cost:
    """weight, indices, offsets, perhaps sample weights."""
    picked = signature.inputs[1].numel * signature.outputs[0].shape[-1]
    return lookup(signature, picked, flops=picked * _flops_per_element(signature))


@register(*aten("_embedding_bag_backward _embedding_bag_dense_backward"))
def embedding_bag_backward(signature: Signature) -> Cost:
    """grad, indices, ..., perhaps sample weights: each bag's gradient goes to every row it picked."""
    grad, indices = signature.inputs[:2]
    picked = indices.numel * grad.shape[-1]
    return gather(signature, picked * _flops_per_element(signature))


@register("aten._embedding_bag_per_sample_weights_backward")
def sample_weights_backward(signature: Signature) -> Cost:
    """grad, weight, indices, ...: the dot product of a picked row with its bag's gradient."""
    grad, _, indices = signature.inputs[:3]
    picked = indices.numel * grad.shape[-1]
    return lookup(signature, picked, table=1, flops=2 * picked)


# Class-index losses pick one log-probability per target


@register(*aten("nll_loss_forward nll_loss2d_forward"))
def nll_loss(signature: Signature) -> Cost:
    """Reads one log-probability per target and sums them."""
    targets = signature.inputs[1].numel
    return lookup(signature, targets, flops=targets)


@register(*aten("nll_loss_backward nll_loss2d_backward"))
def nll_loss_backward(signature: Signature) -> Cost:
    """grad_output, self, target, ...: writes a gradient that is zero but for one element per target.

    self is named for its shape only.
    """
    targets = signature.inputs[2].numel
    return lookup(signature, 0, table=1, flops=targets)
