"""Look-ups and scatters by index: a look-up reads its indices and the rows it picks, never the table."""

from __future__ import annotations

from simdevice.costs.onnx._common import elements, lookup, onnx
from simdevice.costs.registry import register, streamed
from simdevice.records import Cost, Signature

__all__: list[str] = []


@register(
    *onnx("Compress Gather GatherElements GatherND"), "com.microsoft.GatherND", "ai.onnx.ml.ArrayFeatureExtractor"
)
def pick(signature: Signature) -> Cost:
    """The first input is the table; as many of its elements are read as are written."""
    return lookup(signature, elements(signature.outputs))


@register("com.microsoft.GatherBlockQuantized")
def pick_quantized(signature: Signature) -> Cost:
    """The picked elements are dequantised: 1 each."""
    return lookup(signature, elements(signature.outputs), flops=elements(signature.outputs))


@register(*onnx("MaxUnpool NonZero TensorScatter"))
def place(signature: Signature) -> Cost:
    """Values go to the places that indices name; all is read once, written once."""
    return streamed(signature, "gather", 0)


@register(*onnx("Scatter ScatterElements ScatterND"), attributes=("reduction",))
def scatter(signature: Signature) -> Cost:
    """data, indices, updates: accumulates only where `reduction` says how."""
    reduction = signature.attribute("reduction")
    adds = signature.inputs[2].numel if reduction not in (None, "", "none") else 0
    return streamed(signature, "gather", adds)


@register("onnx.NegativeLogLikelihoodLoss")
def nll_loss(signature: Signature) -> Cost:
    """Reads one log-probability per target and sums them."""
    targets = signature.inputs[1].numel
    return lookup(signature, targets, flops=targets)
