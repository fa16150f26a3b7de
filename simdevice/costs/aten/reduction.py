"""Reductions, scans, distances and pooling: 1 FLOP per input element."""

from __future__ import annotations

from simdevice.costs.arithmetic import ceil_log2, elements, elementwise, moved, pooling, reduction
from simdevice.costs.aten._common import aten
from simdevice.costs.registry import register, streamed
from simdevice.records import Cost, Signature
from simdevice.records.dtypes import nbytes

__all__: list[str] = []

REDUCTIONS = aten("""
    _aminmax _is_all_true _is_any_true _logcumsumexp all amax amin aminmax any argmax argmin bincount count_nonzero
    cummax cummin cumprod cumsum hash_tensor histc kthvalue linalg__powsum linalg_vector_norm logcumsumexp logsumexp
    mean median nanmean nanmedian nansum native_norm norm prod std std_mean sum var var_mean
""")

EVEN_BINS = aten("_histogramdd_bin_edges _histogramdd_from_bin_cts")
"""Each coordinate finds its bin by one division (or takes part in one search of the range)."""

register(*REDUCTIONS, *EVEN_BINS, "aten.segment_reduce")(reduction)


@register(*aten("_cummax_helper _cummin_helper"))
def running_extreme(signature: Signature) -> Cost:
    """Scans self into given values and indices, which are only written."""
    return moved("reduction", signature.inputs[0].numel, signature.inputs[:1], signature.outputs)


@register(*aten("max min"))
def extreme(signature: Signature) -> Cost:
    """Of one tensor a reduction; of two an elementwise operator."""
    if len(signature.inputs) == 2:
        return elementwise(signature)
    return reduction(signature)


@register(*aten("_foreach_max _foreach_norm _foreach_powsum"))
def reduction_per_tensor(signature: Signature) -> Cost:
    """Each tensor of the list to one value."""
    return streamed(signature, "reduction", elements(signature.inputs))


@register(*aten("allclose dist equal"))
def comparison(signature: Signature) -> Cost:
    """Two tensors to one value: a difference and its reduction."""
    return streamed(signature, "reduction", elements(signature.inputs))


@register("aten.trace")
def trace(signature: Signature) -> Cost:
    """Reads the diagonal only."""
    source = signature.inputs[0]
    diagonal = min(source.shape)
    read = nbytes((diagonal,), source.dtype)
    written = sum(t.nbytes for t in signature.outputs)
    return Cost("reduction", diagonal, read, written, weight_bytes=read if source.is_weight else 0)


@register(*aten("_cdist_forward _euclidean_dist"))
def distances(signature: Signature) -> Cost:
    """(..., P, M) and (..., R, M) to (..., P, R): a difference and an accumulation per element of a pair."""
    return streamed(signature, "reduction", 2 * elements(signature.outputs) * signature.inputs[0].shape[-1])


@register("aten._cdist_backward")
def distances_backward(signature: Signature) -> Cost:
    """Per pair and element: the difference again and its contribution to the gradient of the first input."""
    grad, first = signature.inputs[:2]
    return streamed(signature, "reduction", 2 * grad.numel * first.shape[-1])


@register("aten._pdist_forward")
def pair_distances(signature: Signature) -> Cost:
    """(N, M) to the N*(N-1)/2 pairs of rows."""
    return streamed(signature, "reduction", 2 * elements(signature.outputs) * signature.inputs[0].shape[-1])


@register("aten._pdist_backward")
def pair_distances_backward(signature: Signature) -> Cost:
    """Each pair gives to the gradients of both of its rows."""
    grad, source = signature.inputs[:2]
    return streamed(signature, "reduction", 3 * grad.numel * source.shape[-1])


@register("aten.histogram")
def histogram(signature: Signature) -> Cost:
    """Each value finds its bin among the edges (the second output)."""
    return streamed(signature, "reduction", signature.inputs[0].numel * ceil_log2(signature.outputs[-1].numel))


@register("aten._histogramdd_from_bin_tensors")
def histogram_of_given_bins(signature: Signature) -> Cost:
    """Each coordinate finds its bin among the edges of its dimension."""
    source = signature.inputs[0]
    points = source.numel // max(source.shape[-1], 1)
    edges = [t for t in signature.inputs[1:] if len(t.shape) == 1][: source.shape[-1]]
    return streamed(signature, "reduction", points * sum(ceil_log2(t.numel) for t in edges))


@register("aten.multinomial")
def multinomial(signature: Signature) -> Cost:
    """A running sum of the weights, then a search in it per draw."""
    source = signature.inputs[0]
    draws = elements(signature.outputs) * ceil_log2(source.shape[-1])
    return streamed(signature, "reduction", source.numel + draws)


@register("aten._segment_reduce_backward")
def segments_backward(signature: Signature) -> Cost:
    """1 per element of the gradient of the data."""
    return elementwise(signature)


@register("aten._amp_foreach_non_finite_check_and_unscale")
def unscale(signature: Signature) -> Cost:
    """Multiplies every gradient by the inverse scale and checks it; the last two inputs are single values."""
    gradients = elements(signature.inputs[:-2])
    return streamed(signature, "elementwise", 2 * gradients)


@register(*aten("_amp_update_scale _assert_async _functional_assert_async _linalg_check_errors"))
def single_value(signature: Signature) -> Cost:
    """Looks at one value."""
    return streamed(signature, "reduction", 1)


# Pooling

POOLING = aten("""
    _adaptive_avg_pool2d _adaptive_avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d
    adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d avg_pool1d avg_pool2d avg_pool3d fractional_max_pool2d
    fractional_max_pool3d max_pool1d max_pool1d_with_indices max_pool2d max_pool2d_with_indices max_pool3d
    max_pool3d_with_indices mkldnn_adaptive_avg_pool2d mkldnn_max_pool2d mkldnn_max_pool3d quantized_max_pool1d
    quantized_max_pool2d quantized_max_pool3d
""")

register(*POOLING)(pooling)


@register(
    *aten(
        "_adaptive_avg_pool2d_backward _adaptive_avg_pool3d_backward adaptive_avg_pool3d_backward avg_pool2d_backward"
    ),
    *aten("avg_pool3d_backward mkldnn_adaptive_avg_pool2d_backward"),
)
def average_backward(signature: Signature) -> Cost:
    """1 per element of the pooled input, as forward: that is the gradient's size. The input gives its shape only."""
    return moved("pooling", elements(signature.outputs[:1]), signature.inputs[:1], signature.outputs)


WITH_INDICES = aten("""
    adaptive_max_pool2d_backward adaptive_max_pool3d_backward fractional_max_pool2d_backward
    fractional_max_pool3d_backward max_pool2d_with_indices_backward max_pool3d_with_indices_backward
""")


@register(*WITH_INDICES)
def maximum_backward(signature: Signature) -> Cost:
    """grad_output, input, indices: the input gives its shape only."""
    grad, _, indices = signature.inputs
    return moved("pooling", elements(signature.outputs[:1]), (grad, indices), signature.outputs)


@register(*aten("max_pool2d_backward mkldnn_max_pool2d_backward mkldnn_max_pool3d_backward"))
def searched_maximum_backward(signature: Signature) -> Cost:
    """Without indices, the maxima are looked for again."""
    return streamed(signature, "pooling", elements(signature.outputs[:1]))
