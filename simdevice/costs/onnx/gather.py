"""Look-ups and scatters by index: a look-up reads its indices and the rows it picks, never the table."""

from __future__ import annotations

from functools import partial

from simdevice.costs.arithmetic import gather, lookup, pick
from simdevice.costs.onnx._common import onnx
from simdevice.costs.registry import register
from simdevice.records import Cost, Signature

__all__: list[str] = []


register(
    *onnx("Compress Gather GatherElements GatherND"), "com.microsoft.GatherND", "ai.onnx.ml.ArrayFeatureExtractor"
)(pick)

register("com.microsoft.GatherBlockQuantized")(partial(pick, flops_per_element=1))
"""The picked elements are dequantised."""

register(*onnx("MaxUnpool NonZero TensorScatter"))(gather)


@register(*onnx("Scatter ScatterElements ScatterND"), attributes=("reduction",))
def scatter(signature: Signature) -> Cost:
    """data, indices, updates: accumulates only where `reduction` says how."""
    reduction = signature.attribute("reduction")
    adds = signature.inputs[2].numel if reduction not in (None, "", "none") else 0
    return gather(signature, adds)


@register("onnx.NegativeLogLikelihoodLoss")
def nll_loss(signature: Signature) -> Cost:
    """Reads one log-probability per target and sums them."""
    targets = signature.inputs[1].numel
    return lookup(signature, targets, flops=targets)
