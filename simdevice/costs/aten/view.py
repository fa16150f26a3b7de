"""Operators that touch no element of a tensor, free of bytes and FLOPs: views, allocations, questions."""

from __future__ import annotations

from simdevice.costs.arithmetic import free
from simdevice.costs.aten._common import aten
from simdevice.costs.registry import register

__all__: list[str] = []

VIEWS = aten("""
    _coalesced _conj _fw_primal _indices _lazy_clone _make_dual _mkldnn_reshape _neg_view _nested_get_values
    _nested_view_from_buffer _nested_view_from_jagged _reshape_alias _test_autograd_multiple_dispatch_view _unsafe_view
    _values alias as_strided ccol_indices chunk col_indices conj crow_indices detach diagonal expand expand_as flatten
    imag indices lift lift_fresh mT movedim narrow numpy_T permute q_per_channel_scales q_per_channel_zero_points real
    reshape reshape_as resolve_conj resolve_neg row_indices select slice slice_inverse split split_with_sizes squeeze
    swapaxes swapdims t tensor_split transpose unbind unflatten unfold unsafe_chunk unsafe_split
    unsafe_split_with_sizes unsqueeze values view view_as view_as_complex view_as_real
""")
"""`reshape` and `flatten` copy only where a view is impossible; front ends that see inside record that copy."""

ALLOCATIONS = aten("""
    _efficientzerotensor _empty_affine_quantized _empty_per_channel_affine_quantized _make_dep_token _resize_output
    empty empty_like empty_permuted empty_quantized empty_strided from_file new_empty new_empty_strided resize
    resize_as set
""")
"""An allocation is not a write: what is written is charged to the operator that writes it."""

QUESTIONS = aten("""
    _assert_scalar _assert_tensor_metadata _dimI _dimV _functional_assert_scalar _functional_sym_constrain_range
    _functional_sym_constrain_range_for_size _fused_sdp_choice _has_same_storage_numel _nested_tensor_size
    _nested_tensor_storage_offsets _nested_tensor_strides _nnz _print _version dense_dim
    is_coalesced is_pinned is_same_size is_set_to q_per_channel_axis q_scale q_zero_point qscheme sparse_dim
    sym_constrain_range sym_constrain_range_for_size sym_numel sym_size sym_storage_offset sym_stride
""")

MARKERS = tuple(
    f"profiler.{name}" for name in ("_record_function_enter", "_record_function_enter_new", "_record_function_exit")
)
"""What `torch.profiler.record_function` leaves in a program, optimizer steps included."""

register(*VIEWS, *ALLOCATIONS, *QUESTIONS, *MARKERS)(free)
