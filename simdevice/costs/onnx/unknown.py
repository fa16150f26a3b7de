"""ONNX operators that no rule can know, each with its reason; charged for their bytes and named in every report."""

from __future__ import annotations

from simdevice.costs import arithmetic
from simdevice.costs.onnx._common import microsoft, onnx
from simdevice.costs.registry import register
from simdevice.records import Cost, Signature

__all__ = ["UNKNOWN"]

_REASONS: dict[str, tuple[str, ...]] = {
    "text: the work follows the length of each string, which is data": (
        *onnx("RegexFullMatch StringConcat StringNormalizer StringSplit TfIdfVectorizer"),
        *("ai.onnx.ml.CategoryMapper", "ai.onnx.ml.LabelEncoder", "com.microsoft.Tokenizer"),
    ),
    "a compressed picture: the work follows its bytes": onnx("ImageDecoder"),
    "boxes: how many suppress each other is data": onnx("NonMaxSuppression"),
    "the size of each region is data": onnx("MaxRoiPool"),
    "control flow whose bodies could not be walked": onnx("If Loop Scan SequenceMap"),
    "maps and dictionaries: their sizes are data": tuple(
        f"ai.onnx.ml.{name}" for name in ("CastMap", "DictVectorizer", "ZipMap")
    ),
    "trees: how deep each row goes is data": tuple(
        f"ai.onnx.ml.{name}" for name in ("TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor")
    ),
    "support vectors are in attributes: how many there are is no shape": tuple(
        f"ai.onnx.ml.{name}" for name in ("SVMClassifier", "SVMRegressor")
    ),
    "how many tokens attend to all others is data": microsoft("LongformerAttention"),
    "a search: how many steps it takes is data": microsoft("BeamSearch GreedySearch Sampling WhisperBeamSearch"),
    "packed sequences: their lengths are data, not shapes": microsoft(
        "PackedAttention PackedMultiHeadAttention PagedAttention"
    ),
    "sparse: the number of non-zeros is data, not shapes": microsoft("SparseAttention SparseToDenseMatMul"),
    "a compiled subgraph of one vendor's provider": microsoft("EPContext"),
    "gradients of a graph that is named, not given": ("ai.onnx.preview.training.Gradient",),
}

UNKNOWN: dict[str, str] = {name: reason for reason, names in _REASONS.items() for name in names}
"""Reason by operator name."""


@register(*UNKNOWN)
def unknown(signature: Signature) -> Cost:
    """FLOPs unknown: totals become lower bounds."""
    return arithmetic.unknown(signature, UNKNOWN[signature.name])
