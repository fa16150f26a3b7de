"""Result shapes of classical models (domain ai.onnx.ml), for which ONNX's own inference knows few or none."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from onnx import NodeProto, TypeProto, helper

from simdevice.frontends.onnx.contrib_shapes import attribute
from simdevice.frontends.onnx.values import Value, elem_type

__all__ = ["DOMAIN", "repair"]

DOMAIN = "ai.onnx.ml"

Shape = tuple[int, ...]
Found = list[tuple[Shape, str]]
Rule = Callable[[NodeProto, Sequence[Value]], Found]


def repair(node: NodeProto, inputs: Sequence[Value | None], found: list[TypeProto | None]) -> None:
    """Put in what a rule here tells; other outputs stay as they were found."""
    rule = _RULES.get(node.op_type)
    given = [value for value in inputs if value is not None]
    if rule is None or not given or not all(value.resolved for value in given):
        return
    try:
        told = rule(node, given)
    except (IndexError, TypeError, ZeroDivisionError):  # attributes that the operator doesn't take
        return
    for index, (shape, dtype) in enumerate(told[: len(found)]):
        found[index] = helper.make_tensor_type_proto(elem_type(dtype), shape)


def _size(node: NodeProto, *names: str) -> int:
    """Elements of the first of these attributes that is given."""
    return next((len(held) for held in (attribute(node, name) for name in names) if held), 0)


def _shape(value: Value) -> Shape:
    return value.shape or ()


def _rows(value: Value) -> int:
    """(rows, features), or the features of a single row."""
    return _shape(value)[0] if len(_shape(value)) > 1 else 1


def _like(dtype: str = "") -> Rule:
    """Element by element; of the input's type where none is named."""
    return lambda node, inputs: [(_shape(inputs[0]), dtype or inputs[0].dtype)]


def _columns(node: NodeProto, inputs: Sequence[Value]) -> Found:
    """ArrayFeatureExtractor picks columns by number; of one row it makes a table of one row."""
    source, columns = inputs[0], inputs[1].numel
    return [((*(_shape(source)[:-1] or (1,)), columns), source.dtype)]


def _categories(node: NodeProto, inputs: Sequence[Value]) -> Found:
    return [((*_shape(inputs[0]), _size(node, "cats_int64s", "cats_strings")), "float32")]


def _mapped(node: NodeProto, inputs: Sequence[Value]) -> Found:
    """Names to numbers or back."""
    return [(_shape(inputs[0]), "int64" if inputs[0].dtype == "string" else "string")]


def _vectors(node: NodeProto, inputs: Sequence[Value]) -> Found:
    """FeatureVectorizer puts columns side by side."""
    widths = attribute(node, "inputdimensions") or [_shape(value)[-1] for value in inputs]
    return [((_rows(inputs[0]), sum(widths)), "float32")]


def _targets(name: str, default: int = 1) -> Rule:
    """A row of numbers per row; an attribute says how many."""
    return lambda node, inputs: [((_rows(inputs[0]), int(attribute(node, name, default))), "float32")]


def _labelled(node: NodeProto, rows: int, scores: int) -> Found:
    """A label and scores per row."""
    label = "string" if _size(node, "classlabels_strings") else "int64"
    return [((rows,), label), ((rows, scores), "float32")]


_LABELS = ("classlabels_int64s", "classlabels_ints", "classlabels_strings")


def _linear_classifier(node: NodeProto, inputs: Sequence[Value]) -> Found:
    """One score per row of coefficients; a single one with two labels is completed by its opposite."""
    scores = _size(node, "intercepts") or _size(node, "coefficients") // max(_shape(inputs[0])[-1], 1)
    return _labelled(node, _rows(inputs[0]), 2 if scores == 1 and _size(node, *_LABELS) == 2 else scores)


def _tree_classifier(node: NodeProto, inputs: Sequence[Value]) -> Found:
    return _labelled(node, _rows(inputs[0]), _size(node, *_LABELS))


def _vector_classifier(node: NodeProto, inputs: Sequence[Value]) -> Found:
    """A score per class where there are probabilities or no support vectors, else one per pair of classes; two classes
    have two either way."""
    classes = _size(node, *_LABELS)
    pairs = _size(node, "vectors_per_class") and not _size(node, "prob_a")
    return _labelled(node, _rows(inputs[0]), classes * (classes - 1) // 2 if pairs and classes > 2 else classes)


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
