"""Normalisations: 5 FLOPs per input element (mean, variance, subtract, scale, shift), twice that backward."""

from __future__ import annotations

from simdevice.costs.arithmetic import lookup, norm
from simdevice.costs.aten._common import aten
from simdevice.costs.registry import register
from simdevice.records import Cost, Signature

__all__: list[str] = []

FORWARD = aten("""
    _batch_norm_no_update _batch_norm_with_update _batch_norm_with_update_functional _fused_rms_norm
    _native_batch_norm_legit _native_batch_norm_legit_functional _native_batch_norm_legit_no_training
    _weight_norm_interface batch_norm cudnn_batch_norm group_norm instance_norm layer_norm miopen_batch_norm
    native_batch_norm native_group_norm native_layer_norm quantized_batch_norm renorm rms_norm
""")

register(*FORWARD)(norm)


GRAD_FIRST = aten("""
    _fused_rms_norm_backward _weight_norm_interface_backward batch_norm_backward native_batch_norm_backward
    native_group_norm_backward native_layer_norm_backward
""")

INPUT_FIRST = aten("cudnn_batch_norm_backward miopen_batch_norm_backward")


@register(*GRAD_FIRST, *INPUT_FIRST)
def norm_backward(signature: Signature) -> Cost:
    """Input and grad_output are both read and have the same size: 5 per element of each.

    The gradient of the input needs the normalised input, two sums and their correction; those of
    the parameters two more sums.
    """
    return norm(signature, 10)


# The pieces of a batch norm whose statistics are gathered from several devices. Each is one pass.


@register(*aten("batch_norm_backward_reduce batch_norm_stats batch_norm_update_stats"))
def batch_statistics(signature: Signature) -> Cost:
    """Sums over the batch: 2 per input element (a mean and a second moment, or two gradient sums)."""
    return norm(signature, 2)


@register(*aten("batch_norm_backward_elemt batch_norm_elemt"))
def batch_scale(signature: Signature) -> Cost:
    """Subtract, scale and shift by statistics that are already known: 3 per element."""
    return norm(signature, 3)


@register(*aten("batch_norm_gather_stats batch_norm_gather_stats_with_counts"))
def merge_statistics(signature: Signature) -> Cost:
    """Statistics of several devices into one: 5 per element of the means (the second input)."""
    return norm(signature, of=1)


@register("aten.embedding_renorm")
def embedding_renorm(signature: Signature) -> Cost:
    """Normalises the rows that the indices name, in place: reads and writes those, 5 per element."""
    table, indices = signature.inputs[:2]
    rows = indices.numel * (table.numel // max(table.shape[0], 1))
    read = lookup(signature, rows)
    written = read.bytes_read - indices.nbytes
    return Cost("norm", 5 * rows, read.bytes_read, written, read.weight_bytes)
