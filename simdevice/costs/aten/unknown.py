"""Operators that no rule can know, each with its reason; they are charged for their bytes and named in every report."""

from __future__ import annotations

from simdevice.costs import arithmetic
from simdevice.costs.aten._common import aten
from simdevice.costs.registry import base_name, register
from simdevice.records import Cost, Signature

__all__ = ["UNKNOWN"]

_REASONS: dict[str, tuple[str, ...]] = {
    "sparse tensors: the number of non-zeros is data, not shapes": aten("""
        _coalesce _convert_indices_from_coo_to_csr _convert_indices_from_csr_to_coo _sparse_addmm _sparse_broadcast_to
        _sparse_broadcast_to_copy _sparse_compressed_tensor_with_dims _sparse_coo_tensor_with_dims
        _sparse_coo_tensor_with_dims_and_tensors _sparse_csr_prod _sparse_csr_sum _sparse_log_softmax
        _sparse_log_softmax_backward_data _sparse_mask_projection _sparse_mm_reduce_impl _sparse_mm_reduce_impl_backward
        _sparse_softmax _sparse_softmax_backward_data _sparse_sparse_matmul _sparse_sum _sparse_sum_backward _spdiags
        _to_dense _to_sparse _to_sparse_bsc _to_sparse_bsr _to_sparse_csc _to_sparse_csr
        _validate_compressed_sparse_indices copy_sparse_to_sparse hspmm resize_as_sparse sparse_compressed_tensor
        sparse_coo_tensor sparse_mask sparse_resize sparse_resize_and_clear sparse_sampled_addmm sspaddmm
    """),
    "semi-structured sparsity: how the packed operand is laid out is the kernel's own": aten("""
        _cslt_sparse_mm _sparse_semi_structured_addmm _sparse_semi_structured_linear _sparse_semi_structured_mm
    """),
    "nested tensors: their lengths are data, not shapes": aten("""
        _nested_compute_contiguous_strides_offsets _nested_from_padded _nested_from_padded_and_nested_example
        _nested_select_backward _nested_sum_backward _nested_tensor_from_mask _nested_tensor_from_mask_left_aligned
        _nested_tensor_from_tensor_list _nested_tensor_softmax_with_shape
    """),
    "CTC: the work follows the length of each target, which is data": aten("""
        _ctc_loss _ctc_loss_backward _cudnn_ctc_loss ctc_loss miopen_ctc_loss
    """),
    "packed parameters: the weights are no tensors of this call": aten("quantized_gru quantized_lstm"),
    "a kernel of one vendor's device: weights are one opaque buffer": aten("""
        _cudnn_rnn _cudnn_rnn_backward _lstm_mps lstm_mps_backward miopen_rnn miopen_rnn_backward
    """),
    "an operator for PyTorch's own tests": aten("""
        _foobar _test_autograd_multiple_dispatch _test_functorch_fallback _test_optional_filled_intlist
        _test_optional_floatlist _test_optional_intlist _test_parallel_materialize _test_warn_in_autograd
    """),
}

UNKNOWN: dict[str, str] = {name: reason for reason, names in _REASONS.items() for name in names}
"""Reason by operator name."""


@register(*UNKNOWN)
def unknown(signature: Signature) -> Cost:
    """FLOPs unknown: totals become lower bounds."""
    name = signature.name
    return arithmetic.unknown(signature, UNKNOWN[name if name in UNKNOWN else base_name(name)])
