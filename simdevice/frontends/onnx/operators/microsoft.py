"""ONNX Runtime's own operators (domain com.microsoft): formal inputs, and how large results are.

Names are those of ONNX Runtime's schemas, which a test compares; cost rules have the same names.
"""

from __future__ import annotations

from simdevice.frontends.onnx.operators import microsoft_shapes as shapes
from simdevice.frontends.onnx.operators.base import Contributed, operator

__all__ = ["DOMAIN", "OPERATORS"]

DOMAIN = "com.microsoft"

_SEARCH = "min_length repetition_penalty vocab_mask prefix_vocab_mask attention_mask"
_BEAMS = "min_length num_beams num_return_sequences length_penalty repetition_penalty vocab_mask prefix_vocab_mask"

OPERATORS: dict[str, Contributed] = {
    "Attention": operator("input weights bias mask_index past attention_bias past_sequence_length", shapes.attention),
    "BeamSearch": operator(f"input_ids max_length {_BEAMS} attention_mask decoder_input_ids logits_processor"),
    "BiasAdd": operator("X bias skip", shapes.same),
    "BiasDropout": operator("data bias residual ratio training_mode"),
    "BiasGelu": operator("A B", shapes.same),
    "BiasSoftmax": operator("data bias", shapes.same),
    "BiasSplitGelu": operator("X bias", shapes.split_gate),
    "BifurcationDetector": operator("src_tokens cur_tokens prev_suffix_match_idx pred_tokens"),
    "CDist": operator("A B", shapes.distances),
    "CausalConvWithState": operator("input weight bias past_state"),
    "ComplexMul": operator("A B"),
    "ComplexMulConj": operator("A B"),
    "ConvTransposeWithDynamicPads": operator("X W Pads B"),
    "CropAndResize": operator("X rois batch_indices crop_size"),
    "DecoderMaskedMultiHeadAttention": operator(
        "query key value mask_index attention_bias past_key past_value past_sequence_length beam_width "
        "cache_indirection bias",
        shapes.decoder_attention,
    ),
    "DecoderMaskedSelfAttention": operator(
        "input weights bias mask_index past attention_bias past_sequence_length beam_width cache_indirection",
        shapes.attention,
    ),
    "DequantizeLinear": operator("x x_scale x_zero_point", shapes.dequantize),
    "DynamicQuantizeLSTM": operator(
        "X W R B sequence_lens initial_h initial_c P W_scale W_zero_point R_scale R_zero_point", shapes.lstm
    ),
    "DynamicQuantizeMatMul": operator("A B b_scale b_zero_point bias", shapes.to_float),
    "EPContext": operator("inputs*"),
    "EmbedLayerNormalization": operator(
        "input_ids segment_ids word_embedding position_embedding segment_embedding gamma beta mask position_ids",
        shapes.embedded_norm,
    ),
    "ExpandDims": operator("X axis"),
    "FastGelu": operator("X bias", shapes.same),
    "FusedConv": operator("X W B Z", twin="Conv", twin_inputs=(0, 1, 2)),
    "FusedGemm": operator("A B C", twin="Gemm", twin_inputs=(0, 1, 2)),
    "FusedMatMul": operator("A B", shapes.product),
    "FusedMatMulActivation": operator("A B", shapes.product),
    "GatedRelativePositionBias": operator("query_layer query_bias rel_pos weight bias eco_a token_offset"),
    "GatherBlockQuantized": operator("data indices scales zero_points", shapes.gathered_blocks),
    "GatherND": operator("data indices"),
    "Gelu": operator("X", shapes.same),
    "GemmFastGelu": operator("X W bias", shapes.product),
    "GemmFloat8": operator("A B C scaleA scaleB scaleY"),
    "GreedySearch": operator(f"input_ids max_length {_SEARCH}"),
    "GridSample": operator("X Grid", twin="GridSample", twin_inputs=(0, 1)),
    "GroupNorm": operator("X gamma beta", shapes.same),
    "GroupQueryAttention": operator(
        "query key value past_key past_value seqlens_k total_sequence_length cos_cache sin_cache position_ids "
        "attention_bias head_sink k_scale v_scale q_norm_weight k_norm_weight query_seqlens",
        shapes.group_query_attention,
        stated=(1, 2),
    ),
    "Inverse": operator("X", shapes.same),
    "Irfft": operator("X", shapes.irfft),
    "IsAllFinite": operator("input*"),
    "LinearAttention": operator("query key value past_state decay beta", shapes.linear_attention),
    "LongformerAttention": operator("input weight bias mask global_weight global_bias global", shapes.same),
    "MatMulBnb4": operator("A B absmax", shapes.packed_product),
    "MatMulFpQ4": operator("A B B_shape", shapes.blob_product),
    "MatMulInteger16": operator("A B"),
    "MatMulIntegerToFloat": operator("A B a_scale b_scale a_zero_point b_zero_point bias", shapes.to_float),
    "MatMulNBits": operator("A B scales zero_points g_idx bias", shapes.packed_product),
    "MaxpoolWithMask": operator("X M"),
    "MoE": operator(
        "input router_probs fc1_experts_weights fc1_experts_bias fc2_experts_weights fc2_experts_bias "
        "fc3_experts_weights fc3_experts_bias",
        shapes.same,
    ),
    "MultiHeadAttention": operator(
        "query key value bias key_padding_mask attention_bias past_key past_value past_sequence_length "
        "cache_indirection",
        shapes.multi_head_attention,
    ),
    "MurmurHash3": operator("X"),
    "NGramRepeatBlock": operator("input_ids scores"),
    "NhwcConv": operator("X W B", shapes.nhwc_convolution),
    "NhwcFusedConv": operator("X W B Z", shapes.nhwc_convolution),
    "NhwcMaxPool": operator("x", shapes.nhwc_pool),
    "PackedAttention": operator("input weights bias token_offset cumulative_sequence_length attention_bias"),
    "PackedMultiHeadAttention": operator("query key value bias token_offset cumulative_sequence_length attention_bias"),
    "Pad": operator("data pads value"),
    "PagedAttention": operator(
        "query key value key_cache value_cache cumulative_sequence_length past_seqlens block_table cos_cache sin_cache "
        "slot_mapping head_sink q_norm_weight k_norm_weight k_scale v_scale attention_metadata"
    ),
    "QAttention": operator(
        "input weight bias input_scale weight_scale mask_index input_zero_point weight_zero_point past",
        shapes.attention,
    ),
    "QGemm": operator("A a_scale a_zero_point B b_scale b_zero_point C y_scale y_zero_point", shapes.quantized_gemm),
    "QLinearAdd": operator(
        "A A_scale A_zero_point B B_scale B_zero_point C_scale C_zero_point", twin="Add", twin_inputs=(0, 3)
    ),
    "QLinearAveragePool": operator("X x_scale x_zero_point y_scale y_zero_point", shapes.quantized_pool),
    "QLinearConcat": operator("Y_scale Y_zero_point inputs*", shapes.concat),
    "QLinearConv": operator(
        "x x_scale x_zero_point w w_scale w_zero_point y_scale y_zero_point B", shapes.quantized_convolution
    ),
    "QLinearGlobalAveragePool": operator("X x_scale x_zero_point y_scale y_zero_point", shapes.quantized_pool),
    "QLinearLeakyRelu": operator("X X_scale X_zero_point Y_scale Y_zero_point", shapes.same),
    "QLinearMul": operator(
        "A A_scale A_zero_point B B_scale B_zero_point C_scale C_zero_point", twin="Mul", twin_inputs=(0, 3)
    ),
    "QLinearReduceMean": operator(
        "data data_scale data_zero_point reduced_scale reduced_zero_point", twin="ReduceMean", twin_inputs=(0,)
    ),
    "QLinearSigmoid": operator("X X_scale X_zero_point Y_scale Y_zero_point", shapes.same),
    "QLinearSoftmax": operator("X X_scale x_zero_point y_scale y_zero_point", shapes.same),
    "QLinearWhere": operator(
        "condition X x_scale x_zero_point Y y_scale y_zero_point z_scale z_zero_point", shapes.where
    ),
    "QMoE": operator(
        "input router_probs fc1_experts_weights fc1_scales fc1_experts_bias fc2_experts_weights fc2_scales "
        "fc2_experts_bias fc3_experts_weights fc3_scales fc3_experts_bias fc1_zero_points fc2_zero_points "
        "fc3_zero_points router_weights fc1_global_scale fc2_global_scale fc1_act_scale fc2_act_scale "
        "fc1_act_block_scale fc2_act_block_scale",
        shapes.same,
    ),
    "QuantizeLinear": operator("x y_scale y_zero_point", shapes.quantize),
    "QuickGelu": operator("X", shapes.same),
    "ReduceSumInteger": operator("data"),
    "RelativePositionBias": operator("bias_table query_length key_length"),
    "RemovePadding": operator("input sequence_token_count"),
    "RestorePadding": operator("input token_offset"),
    "Rfft": operator("X", shapes.rfft),
    "RotaryEmbedding": operator("input position_ids cos_cache sin_cache", shapes.same),
    "Sampling": operator(f"input_ids max_length {_SEARCH} presence_mask seed"),
    "SkipGroupNorm": operator("X gamma beta skip bias", shapes.same),
    "SkipLayerNormalization": operator("input skip gamma beta bias", shapes.skip_norm),
    "SkipSimplifiedLayerNormalization": operator("input skip gamma bias", shapes.skip_norm),
    "SparseAttention": operator(
        "query key value past_key past_value block_row_indices block_col_indices total_sequence_length "
        "key_total_sequence_lengths cos_cache sin_cache"
    ),
    "SparseToDenseMatMul": operator("A B"),
    "Tokenizer": operator("X"),
    "TransposeMatMul": operator("A B", shapes.product),
    "Trilu": operator("X k", shapes.same),
    "Unique": operator("x"),
    "WhisperBeamSearch": operator(
        f"input_ids max_length {_BEAMS} attention_mask decoder_input_ids logits_processor cross_qk_layer_head "
        "extra_decoding_ids temperature"
    ),
    "WordConvEmbedding": operator("Sequence W B C"),
}
