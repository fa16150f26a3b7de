"""Reductions, scans and pooling: 1 FLOP per input element."""

from __future__ import annotations

from simdevice.costs.arithmetic import ceil_log2, elements, pooling, reduction, unknown
from simdevice.costs.onnx._common import microsoft, onnx
from simdevice.costs.registry import register, streamed
from simdevice.records import Cost, Signature

__all__: list[str] = []

REDUCTIONS = onnx("""
    ArgMax ArgMin CumProd CumSum ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin
    ReduceProd ReduceSum ReduceSumSquare
""")

POOLING = onnx("AveragePool GlobalAveragePool GlobalLpPool GlobalMaxPool LpPool MaxPool")


register(*REDUCTIONS, *microsoft("MurmurHash3 QLinearReduceMean ReduceSumInteger"), "onnx.Col2Im")(reduction)

register(*POOLING, *microsoft("MaxpoolWithMask NhwcMaxPool QLinearAveragePool QLinearGlobalAveragePool"))(pooling)


@register("com.microsoft.CDist")
def distances(signature: Signature) -> Cost:
    """A difference and an accumulation per element of a pair."""
    return streamed(signature, "reduction", 2 * elements(signature.outputs) * signature.inputs[0].shape[-1])


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
