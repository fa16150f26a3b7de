"""Classical models (domain ai.onnx.ml): result shapes, of which ONNX's own inference knows few or none."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from onnx import NodeProto

from simdevice.frontends.onnx.nodes import attribute
from simdevice.frontends.onnx.operators.base import Contributed, Results, Rule, dtype_at, shape_at
from simdevice.frontends.onnx.values import Value

__all__ = ["DOMAIN", "OPERATORS"]

DOMAIN = "ai.onnx.ml"

Inputs = Sequence[Value | None]


def _size(node: NodeProto, *names: str) -> int:
    """Elements of the first of these attributes that is given."""
    return next((len(held) for held in (attribute(node, name) for name in names) if held), 0)


def _rows(inputs: Inputs) -> int:
    """(rows, features), or the features of a single row."""
    shape = shape_at(inputs)
    return shape[0] if len(shape) > 1 else 1


def _like(dtype: str = "") -> Rule:
    """Element by element; of the input's type where none is named."""
    return lambda node, inputs: [(shape_at(inputs), dtype or dtype_at(inputs))]


def _columns(node: NodeProto, inputs: Inputs) -> Results:
    """ArrayFeatureExtractor picks columns by number; of one row it makes a table of one row."""
    return [((*(shape_at(inputs)[:-1] or (1,)), prod(shape_at(inputs, 1))), dtype_at(inputs))]


def _categories(node: NodeProto, inputs: Inputs) -> Results:
    return [((*shape_at(inputs), _size(node, "cats_int64s", "cats_strings")), "float32")]


def _mapped(node: NodeProto, inputs: Inputs) -> Results:
    """Names to numbers or back."""
    return [(shape_at(inputs), "int64" if dtype_at(inputs) == "string" else "string")]


def _vectors(node: NodeProto, inputs: Inputs) -> Results:
    """FeatureVectorizer puts columns side by side."""
    widths = attribute(node, "inputdimensions") or [
        shape_at(inputs, i)[-1] for i, v in enumerate(inputs) if v is not None
    ]
    return [((_rows(inputs), sum(widths)), "float32")]


def _targets(name: str, default: int = 1) -> Rule:
    """A row of numbers per row; an attribute says how many."""
    return lambda node, inputs: [((_rows(inputs), int(attribute(node, name, default))), "float32")]


def _labelled(node: NodeProto, rows: int, scores: int) -> Results:
    """A label and scores per row."""
    label = "string" if _size(node, "classlabels_strings") else "int64"
    return [((rows,), label), ((rows, scores), "float32")]


_LABELS = ("classlabels_int64s", "classlabels_ints", "classlabels_strings")


def _linear_classifier(node: NodeProto, inputs: Inputs) -> Results:
    """One score per row of coefficients; a single one with two labels is completed by its opposite."""
    scores = _size(node, "intercepts") or _size(node, "coefficients") // max(shape_at(inputs)[-1], 1)
    return _labelled(node, _rows(inputs), 2 if scores == 1 and _size(node, *_LABELS) == 2 else scores)


def _tree_classifier(node: NodeProto, inputs: Inputs) -> Results:
    return _labelled(node, _rows(inputs), _size(node, *_LABELS))


def _vector_classifier(node: NodeProto, inputs: Inputs) -> Results:
    """A score per class where there are probabilities or no support vectors, else one per pair of classes; two classes
    have two either way."""
    classes = _size(node, *_LABELS)
    pairs = _size(node, "vectors_per_class") and not _size(node, "prob_a")
    return _labelled(node, _rows(inputs), classes * (classes - 1) // 2 if pairs and classes > 2 else classes)


_RULES: dict[str, Rule] = {
    "ArrayFeatureExtractor": _columns,
    "Binarizer": _like(),
    "CategoryMapper": _mapped,
    "FeatureVectorizer": _vectors,
    "Imputer": _like(),
    "LinearClassifier": _linear_classifier,
    "LinearRegressor": _targets("targets"),
    "Normalizer": _like("float32"),
    "OneHotEncoder": _categories,
    "SVMClassifier": _vector_classifier,
    "SVMRegressor": _targets("", 1),
    "Scaler": _like("float32"),
    "TreeEnsembleClassifier": _tree_classifier,
    "TreeEnsembleRegressor": _targets("n_targets"),
}

OPERATORS = {name: Contributed(rule=rule) for name, rule in _RULES.items()}
"""onnx has schemas for all, which name the inputs."""
