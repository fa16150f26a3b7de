"""Copies, concatenations, layout changes: 0 FLOPs, inputs and outputs once each."""

from __future__ import annotations

from simdevice.costs.arithmetic import accumulated, moved, movement
from simdevice.costs.aten._common import aten
from simdevice.costs.registry import register
from simdevice.records import Cost, Signature

__all__: list[str] = []

COPIES = aten("""
    _chunk_cat _copy_from_and_resize _foreach_clone _pin_memory _stack _to_copy block_diag cat channel_shuffle clone
    column_stack concat contiguous dstack expand_copy flip fliplr flipud hstack lift_fresh_copy native_channel_shuffle
    pixel_shuffle pixel_unshuffle repeat roll rot90 stack tile to type_as vstack
""")

COPIES_OF_VIEWS = aten("""
    _conj_copy _fw_primal_copy _indices_copy _make_dual_copy _neg_view_copy _nested_get_values_copy
    _nested_view_from_buffer_copy _nested_view_from_jagged_copy _reshape_alias_copy _reshape_copy
    _test_autograd_multiple_dispatch_view_copy _values_copy alias_copy as_strided_copy ccol_indices_copy
    col_indices_copy crow_indices_copy detach_copy diagonal_copy indices_copy narrow_copy permute_copy row_indices_copy
    select_copy slice_copy split_copy split_with_sizes_copy squeeze_copy t_copy transpose_copy unbind_copy unfold_copy
    unsqueeze_copy values_copy view_as_complex_copy view_as_real_copy view_copy
""")

SCATTERED_VIEWS = aten("as_strided_scatter diagonal_scatter select_scatter slice_scatter")

BACKWARD_OF_VIEWS = aten("diagonal_backward masked_scatter_backward select_backward slice_backward")

PADDING = aten("""
    _jagged_to_padded_dense_forward _pack_padded_sequence _padded_dense_to_jagged_forward constant_pad_nd pad
    reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d replication_pad3d
    to_padded_tensor
""")

LAYOUTS = aten("""
    _convert_weight_to_int4pack _convert_weight_to_int4pack_for_cpu _cudnn_rnn_flatten_weight
    _dyn_quant_pack_4bit_weight _make_per_channel_quantized_tensor _make_per_tensor_quantized_tensor _mkldnn_transpose
    diag_embed im2col int_repr mkldnn_reorder_conv2d_weight mkldnn_reorder_conv3d_weight to_mkldnn tril triu
""")


register(*COPIES, *COPIES_OF_VIEWS, *SCATTERED_VIEWS, *BACKWARD_OF_VIEWS, *PADDING, *LAYOUTS)(movement)


@register(*aten("_copy_from copy copy_"))
def copy(signature: Signature) -> Cost:
    """Reads the source only: the destination, where it is listed, is overwritten or a shape."""
    first = signature.name == "aten._copy_from"  # (source, destination); the others name the destination first
    return moved("movement", 0, signature.inputs[:1] if first else signature.inputs[-1:], signature.outputs)


@register("aten._foreach_copy")
def copies(signature: Signature) -> Cost:
    """Destinations, where they are listed, come first and are not read."""
    sources = signature.inputs[-len(signature.outputs) :] if signature.outputs else ()
    return moved("movement", 0, sources, signature.outputs)


ACCUMULATING = aten("""
    col2im reflection_pad1d_backward reflection_pad2d_backward reflection_pad3d_backward replication_pad1d_backward
    replication_pad2d_backward replication_pad3d_backward unfold_backward
""")

register(*ACCUMULATING)(accumulated)


@register("aten._local_scalar_dense")
def item(signature: Signature) -> Cost:
    """One element crosses to the host."""
    return moved("transfer", 0, signature.inputs, ())
