"""Reductions, scans and pooling: 1 FLOP per input element."""

from __future__ import annotations

from simdevice.costs.onnx._common import ceil_log2, elements, microsoft, onnx, unknown
from simdevice.costs.registry import register, streamed
from simdevice.records import Cost, Signature

__all__: list[str] = []

REDUCTIONS = onnx("""
    ArgMax ArgMin CumProd CumSum ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin
    ReduceProd ReduceSum ReduceSumSquare
""")

POOLING = onnx("AveragePool GlobalAveragePool GlobalLpPool GlobalMaxPool LpPool MaxPool")


@register(*REDUCTIONS, "com.microsoft.MurmurHash3", "com.microsoft.CDist")
def reduction(signature: Signature) -> Cost:
    """The first input is what is reduced."""
    if signature.name == "com.microsoft.CDist":  # a difference and an accumulation per element of a pair
        return streamed(signature, "reduction", 2 * elements(signature.outputs) * signature.inputs[0].shape[-1])
    return streamed(signature, "reduction", signature.inputs[0].numel)


@register(*POOLING, *microsoft("MaxpoolWithMask NhwcMaxPool"))
def pooling(signature: Signature) -> Cost:
    """The first input is the image; overlapping windows share what they combine, as in PyTorch's pooling."""
    return streamed(signature, "pooling", signature.inputs[0].numel)


@register("onnx.Col2Im")
def columns_to_image(signature: Signature) -> Cost:
    """Places that several columns cover are summed: 1 per element read."""
    return streamed(signature, "reduction", signature.inputs[0].numel)


@register("onnx.RoiAlign", attributes=("sampling_ratio",))
def roi_align(signature: Signature) -> Cost:
    """Each output element averages ratio x ratio samples, each mixed from 4 neighbours at 2 FLOPs."""
    ratio = signature.attribute("sampling_ratio") or 0
    if not ratio:
        return unknown(
            signature, "sampling_ratio 0: how many samples a region takes follows from its size, which is data"
        )
    return streamed(signature, "pooling", elements(signature.outputs) * ratio * ratio * 8)


@register("onnx.Multinomial")
def multinomial(signature: Signature) -> Cost:
    """A running sum of the weights, then a search in it per draw."""
    source = signature.inputs[0]
    draws = elements(signature.outputs) * ceil_log2(source.shape[-1])
    return streamed(signature, "reduction", source.numel + draws)
