"""Cost rules for ONNX operators, a file per family; importing a family registers it. Nothing here imports onnx.

Names are `onnx.MatMul` for the default domain and `com.microsoft.FusedMatMul` for any other. Inputs are
the tensors a node reads, absent optional ones left out; inputs that only parametrise an operator (a
shape, axes, k) are attributes by the names in PARAMETERS. A rule that must know which optional inputs
came declares the attribute "given": their formal names, in order.
"""

from simdevice.costs.onnx import (
    attention,
    contraction,
    contrib,
    convolution,
    experts,
    gather,
    movement,
    norm,
    pointwise,
    reduction,
    rnn,
    signal,
    sort,
    traditional,
    unknown,
    view,
)
from simdevice.costs.onnx.parameters import PARAMETERS

__all__ = [
    "PARAMETERS",
    "attention",
    "contraction",
    "contrib",
    "convolution",
    "experts",
    "gather",
    "movement",
    "norm",
    "pointwise",
    "reduction",
    "rnn",
    "signal",
    "sort",
    "traditional",
    "unknown",
    "view",
]
