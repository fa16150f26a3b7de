"""Inputs that parametrise an ONNX operator rather than being computed on: attributes of its signature, where known."""

from __future__ import annotations

__all__ = ["PARAMETERS"]

_AXES = {1: "axes"}

PARAMETERS: dict[str, dict[int, str]] = {
    "AffineGrid": {1: "size"},
    "BlackmanWindow": {0: "size"},
    "CenterCropPad": {1: "shape"},
    "Col2Im": {1: "image_shape", 2: "block_shape"},
    "ConstantOfShape": {0: "shape"},
    "CumProd": {1: "axis"},
    "CumSum": {1: "axis"},
    "DFT": {1: "dft_length", 2: "axis"},
    "Dropout": {1: "ratio", 2: "training_mode"},
    "Expand": {1: "shape"},
    "HammingWindow": {0: "size"},
    "HannWindow": {0: "size"},
    "MaxUnpool": {2: "output_shape"},
    "MelWeightMatrix": dict(
        enumerate(("num_mel_bins", "dft_length", "sample_rate", "lower_edge_hertz", "upper_edge_hertz"))
    ),
    "NonMaxSuppression": {2: "max_output_boxes_per_class", 3: "iou_threshold", 4: "score_threshold"},
    "OneHot": {1: "depth"},
    "Pad": {1: "pads", 2: "constant_value", 3: "axes"},
    "Range": {0: "start", 1: "limit", 2: "delta"},
    **{
        f"Reduce{kind}": _AXES
        for kind in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
    },
    "Reshape": {1: "shape"},
    "Resize": {1: "roi", 2: "scales", 3: "sizes"},
    "STFT": {1: "frame_step", 3: "frame_length"},
    "SequenceAt": {1: "position"},
    "SequenceErase": {1: "position"},
    "SequenceInsert": {2: "position"},
    "Slice": {1: "starts", 2: "ends", 3: "axes", 4: "steps"},
    "Split": {1: "split"},
    "SplitToSequence": {1: "split"},
    "Squeeze": _AXES,
    "Tile": {1: "repeats"},
    "TopK": {1: "k"},
    "Trilu": {1: "k"},
    "Unsqueeze": _AXES,
    "Upsample": {1: "scales"},
}
"""By operator, which input (from zero) is which parameter. Where an older version has an attribute instead, the name
is that attribute's. Standing in the signature or not is the rule's choice, as for every attribute."""
