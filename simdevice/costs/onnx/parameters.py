"""Inputs that parametrise an ONNX operator rather than being computed on: attributes of its signature, where known."""

from __future__ import annotations

__all__ = ["PARAMETERS"]

_AXES = {1: "axes"}

PARAMETERS: dict[str, dict[int, str]] = {
    "com.microsoft.Attention": {6: "past_sequence_length"},
    "com.microsoft.CropAndResize": {3: "crop_size"},
    "com.microsoft.DecoderMaskedMultiHeadAttention": {7: "past_sequence_length", 8: "beam_width"},
    "com.microsoft.DecoderMaskedSelfAttention": {6: "past_sequence_length", 7: "beam_width"},
    "com.microsoft.ExpandDims": {1: "axis"},
    "com.microsoft.GroupQueryAttention": {6: "total_sequence_length"},
    "com.microsoft.MatMulFpQ4": {2: "B_shape"},
    "com.microsoft.Pad": {1: "pads", 2: "value"},
    "com.microsoft.Trilu": {1: "k"},
    "onnx.AffineGrid": {1: "size"},
    "onnx.BlackmanWindow": {0: "size"},
    "onnx.CenterCropPad": {1: "shape"},
    "onnx.Col2Im": {1: "image_shape", 2: "block_shape"},
    "onnx.ConstantOfShape": {0: "shape"},
    "onnx.CumProd": {1: "axis"},
    "onnx.CumSum": {1: "axis"},
    "onnx.DFT": {1: "dft_length", 2: "axis"},
    "onnx.Dropout": {1: "ratio", 2: "training_mode"},
    "onnx.Expand": {1: "shape"},
    "onnx.HammingWindow": {0: "size"},
    "onnx.HannWindow": {0: "size"},
    "onnx.MaxUnpool": {2: "output_shape"},
    "onnx.MelWeightMatrix": dict(
        enumerate(("num_mel_bins", "dft_length", "sample_rate", "lower_edge_hertz", "upper_edge_hertz"))
    ),
    "onnx.NonMaxSuppression": {2: "max_output_boxes_per_class", 3: "iou_threshold", 4: "score_threshold"},
    "onnx.OneHot": {1: "depth"},
    "onnx.Pad": {1: "pads", 2: "constant_value", 3: "axes"},
    "onnx.Range": {0: "start", 1: "limit", 2: "delta"},
    **{
        f"onnx.Reduce{kind}": _AXES
        for kind in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
    },
    "onnx.Reshape": {1: "shape"},
    "onnx.Resize": {1: "roi", 2: "scales", 3: "sizes"},
    "onnx.STFT": {1: "frame_step", 3: "frame_length"},
    "onnx.SequenceAt": {1: "position"},
    "onnx.SequenceErase": {1: "position"},
    "onnx.SequenceInsert": {2: "position"},
    "onnx.Slice": {1: "starts", 2: "ends", 3: "axes", 4: "steps"},
    "onnx.Split": {1: "split"},
    "onnx.SplitToSequence": {1: "split"},
    "onnx.Squeeze": _AXES,
    "onnx.Tile": {1: "repeats"},
    "onnx.TopK": {1: "k"},
    "onnx.Trilu": {1: "k"},
    "onnx.Unsqueeze": _AXES,
    "onnx.Upsample": {1: "scales"},
}
"""By canonical name, which input (from zero) is which parameter. Where an older version has an attribute instead, the
name is that attribute's. Standing in the signature or not is the rule's choice, as for every attribute."""
