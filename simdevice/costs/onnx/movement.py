"""Copies, concatenations, layout changes and creation: 0 FLOPs. ONNX has no views: a transposition is a copy."""

from __future__ import annotations

from simdevice.costs.arithmetic import creation, free, moved, movement
from simdevice.costs.onnx._common import microsoft, onnx
from simdevice.costs.registry import register, streamed
from simdevice.records import Cost, Signature

__all__: list[str] = []

COPIES = onnx("""
    CenterCropPad Concat ConcatFromSequence DepthToSpace Pad ReverseSequence Slice SpaceToDepth Split SplitToSequence
    Tile Transpose Trilu
""")


register(*COPIES, *microsoft("CropAndResize Pad Trilu"))(movement)


@register(*onnx("Cast CastLike Expand"))
def convert(signature: Signature) -> Cost:
    """A copy; one that changes neither type nor shape is dropped by every runtime. A second tensor names a type or
    a shape and is not read."""
    source, result = signature.inputs[0], signature.outputs[0]
    if (source.shape, source.dtype) == (result.shape, result.dtype):
        return free(signature)
    return moved("movement", 0, signature.inputs[:1], signature.outputs)


CREATION = onnx("""
    BlackmanWindow Constant ConstantOfShape EyeLike HammingWindow HannWindow MelWeightMatrix RandomNormal
    RandomNormalLike RandomUniform RandomUniformLike Range
""")

register(*CREATION)(creation)


@register("onnx.OneHot")
def one_hot(signature: Signature) -> Cost:
    """Reads the indices and the two values, writes the rest from nothing."""
    return streamed(signature, "creation", 0)
