"""Normalisations and softmax: 5 FLOPs per input element."""

from __future__ import annotations

from functools import partial

from simdevice.costs.arithmetic import lookup, norm, softmax
from simdevice.costs.onnx._common import microsoft, onnx
from simdevice.costs.registry import register, streamed
from simdevice.records import Cost, Signature

__all__: list[str] = []

NORMS = onnx("""
    BatchNormalization GroupNormalization InstanceNormalization LRN LayerNormalization LpNormalization
    MeanVarianceNormalization RMSNormalization SimplifiedLayerNormalization
""")
"""(ONNX Runtime registers SimplifiedLayerNormalization without a domain.)"""

register(*NORMS)(norm)


@register("com.microsoft.GroupNorm", attributes=("activation",))
def norm_activation(signature: Signature) -> Cost:
    """A group norm of channels last, and SiLU where asked for."""
    return norm(signature, 5 + bool(signature.attribute("activation")))


@register(*microsoft("SkipGroupNorm SkipLayerNormalization SkipSimplifiedLayerNormalization"), attributes=("given",))
def skip_norm(signature: Signature) -> Cost:
    """The residual sum first, and one with the bias where there is one."""
    return norm(signature, 6 + ("bias" in signature.attribute("given", ())))


@register("com.microsoft.EmbedLayerNormalization", attributes=("given",))
def embedded_norm(signature: Signature) -> Cost:
    """Rows of up to three tables are picked and added, then normalised; the tables are not read whole."""
    result = signature.outputs[0]
    names = signature.attribute("given", ())
    tables = [i for i, name in enumerate(names) if name.endswith("_embedding")]
    flops = (5 + max(len(tables) - 1, 0)) * result.numel
    if not tables:
        return streamed(signature, "norm", flops)
    rest = [t for i, t in enumerate(signature.inputs) if i not in tables]
    reduced = Signature(signature.name, (signature.inputs[tables[0]], *rest), signature.outputs)
    return lookup(reduced, len(tables) * result.numel, flops=flops, category="norm")


register(*onnx("Hardmax LogSoftmax Softmax"), "com.microsoft.QLinearSoftmax")(softmax)

register("com.microsoft.BiasSoftmax")(partial(softmax, extra=1))
"""A sum, then a softmax."""


@register("onnx.SoftmaxCrossEntropyLoss")
def cross_entropy(signature: Signature) -> Cost:
    """A log-softmax of the scores, and one log-probability picked per label."""
    scores, labels = signature.inputs[:2]
    return streamed(signature, "softmax", 5 * scores.numel + labels.numel)
