"""The one home of the formulas: shapes in, a Cost with its products out. Dialects (aten, onnx) are tables of names
over it; a formula knows no operator's name."""

from simdevice.costs.arithmetic import attention, convolution, linalg, products, recurrent, sampling
from simdevice.costs.arithmetic.basics import ceil_log2, contraction, elements, lookup, moved, split_evenly, unknown
from simdevice.costs.arithmetic.passes import (
    MERGE,
    RADIX_2,
    accumulated,
    creation,
    elementwise,
    free,
    gather,
    merge_sort,
    movement,
    norm,
    pick,
    pooling,
    reduction,
    softmax,
    top_k,
)

__all__ = [
    "MERGE",
    "RADIX_2",
    "accumulated",
    "attention",
    "ceil_log2",
    "contraction",
    "convolution",
    "creation",
    "elements",
    "elementwise",
    "free",
    "gather",
    "linalg",
    "lookup",
    "merge_sort",
    "moved",
    "movement",
    "norm",
    "pick",
    "pooling",
    "products",
    "recurrent",
    "reduction",
    "sampling",
    "softmax",
    "split_evenly",
    "top_k",
    "unknown",
]
