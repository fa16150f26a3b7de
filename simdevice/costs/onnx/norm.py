"""Normalisations and softmax: 5 FLOPs per input element."""

from __future__ import annotations

from simdevice.costs.onnx._common import elements, lookup, microsoft, onnx
from simdevice.costs.registry import register, streamed
from simdevice.records import Cost, Signature

__all__: list[str] = []

FLOPS_PER_ELEMENT = 5

NORMS = onnx("""
    BatchNormalization GroupNormalization InstanceNormalization LRN LayerNormalization LpNormalization
    MeanVarianceNormalization RMSNormalization SimplifiedLayerNormalization
""")


@register(*NORMS)
def norm(signature: Signature) -> Cost:
    """The first input is what is normalised. (ONNX Runtime registers SimplifiedLayerNormalization without a domain.)"""
    return streamed(signature, "norm", FLOPS_PER_ELEMENT * signature.inputs[0].numel)


@register("com.microsoft.GroupNorm", attributes=("activation",))
def norm_activation(signature: Signature) -> Cost:
    """A group norm of channels last, and SiLU where asked for."""
    per_element = FLOPS_PER_ELEMENT + bool(signature.attribute("activation"))
    return streamed(signature, "norm", per_element * signature.inputs[0].numel)


@register(*microsoft("SkipGroupNorm SkipLayerNormalization SkipSimplifiedLayerNormalization"), attributes=("given",))
def skip_norm(signature: Signature) -> Cost:
    """The residual sum first, and one with the bias where there is one."""
    sums = 1 + ("bias" in signature.attribute("given", ()))
    return streamed(signature, "norm", (FLOPS_PER_ELEMENT + sums) * signature.inputs[0].numel)


@register("com.microsoft.EmbedLayerNormalization", attributes=("given",))
def embedded_norm(signature: Signature) -> Cost:
    """Rows of up to three tables are picked and added, then normalised; the tables are not read whole."""
    result = signature.outputs[0]
    given = signature.attribute("given", ())
    tables = [i for i, name in enumerate(given) if name.endswith("_embedding")]
    flops = (FLOPS_PER_ELEMENT + max(len(tables) - 1, 0)) * result.numel
    if not tables:
        return streamed(signature, "norm", flops)
    rest = [t for i, t in enumerate(signature.inputs) if i not in tables]
    reduced = Signature(signature.name, (signature.inputs[tables[0]], *rest), signature.outputs)
    found = lookup(reduced, len(tables) * result.numel)
    return Cost("norm", flops, found.bytes_read, found.bytes_written, found.weight_bytes)


@register(*onnx("Hardmax LogSoftmax Softmax"))
def softmax(signature: Signature) -> Cost:
    """Maximum, subtract, exponential, sum, divide."""
    return streamed(signature, "softmax", 5 * signature.inputs[0].numel)


@register("com.microsoft.BiasSoftmax")
def bias_softmax(signature: Signature) -> Cost:
    """A sum, then a softmax."""
    return streamed(signature, "softmax", 6 * signature.inputs[0].numel)


@register("onnx.SoftmaxCrossEntropyLoss")
def cross_entropy(signature: Signature) -> Cost:
    """A log-softmax of the scores, and one log-probability picked per label."""
    scores, labels = signature.inputs[:2]
    return streamed(signature, "softmax", 5 * scores.numel + elements((labels,)))
