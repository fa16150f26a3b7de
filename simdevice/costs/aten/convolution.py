"""Convolutions: 2 FLOPs per multiply-add, and 1 per output element for a bias."""

from __future__ import annotations

from math import prod

from simdevice.costs.aten._common import aten, elements
from simdevice.costs.registry import register, streamed
from simdevice.records import Cost, Signature, TensorSpec

__all__: list[str] = []


def _multiply_adds(source: TensorSpec, weight: TensorSpec, result: TensorSpec, *, transposed: bool) -> int:
    """Each output element meets C_in/groups * kernel weights; weight is (C_out, C_in/groups, *kernel).

    A transposed convolution scatters instead: each input element meets C_out/groups * kernel
    weights, and weight is (C_in, C_out/groups, *kernel). Both are the side's elements x the
    weight's trailing dimensions, so the number of groups is already in the shape.
    """
    return (source if transposed else result).numel * prod(weight.shape[1:])


def _convolution(signature: Signature, *, transposed: bool, bias: bool, extra: int = 0) -> Cost:
    source, weight = signature.inputs[:2]
    result = signature.outputs[0]
    products = 2 * _multiply_adds(source, weight, result, transposed=transposed)
    return streamed(signature, "convolution", products + result.numel * (int(bias) + extra))


@register(
    *aten("_convolution _mps_convolution convolution convolution_overrideable cudnn_convolution miopen_convolution"),
    *aten("miopen_depthwise_convolution mkldnn_convolution"),
    attributes=("transposed", "groups"),
)
def convolution(signature: Signature) -> Cost:
    """A third tensor is the bias."""
    transposed = bool(signature.attribute("transposed", False))
    return _convolution(signature, transposed=transposed, bias=len(signature.inputs) > 2)


@register(
    *aten("_conv_depthwise2d _nnpack_spatial_convolution _slow_conv2d_forward conv1d conv2d conv3d conv_depthwise3d"),
    *aten("slow_conv3d slow_conv3d_forward slow_conv_dilated2d slow_conv_dilated3d thnn_conv2d"),
    attributes=("groups",),
)
def forward_only(signature: Signature) -> Cost:
    """Operators that have no transposed form."""
    return _convolution(signature, transposed=False, bias=len(signature.inputs) > 2)


@register(
    *aten("_mps_convolution_transpose cudnn_convolution_transpose miopen_convolution_transpose"),
    *aten("conv_transpose1d conv_transpose2d conv_transpose3d slow_conv_transpose2d slow_conv_transpose3d"),
    attributes=("groups",),
)
def transposed_only(signature: Signature) -> Cost:
    """Operators that are always transposed."""
    return _convolution(signature, transposed=True, bias=len(signature.inputs) > 2)


@register("aten.cudnn_convolution_relu", attributes=("groups",))
def convolution_relu(signature: Signature) -> Cost:
    """The convolution, then ReLU on each output element."""
    return _convolution(signature, transposed=False, bias=len(signature.inputs) > 2, extra=1)


@register("aten.cudnn_convolution_add_relu", attributes=("groups",))
def convolution_add_relu(signature: Signature) -> Cost:
    """The convolution plus alpha*z (the third tensor), then ReLU."""
    return _convolution(signature, transposed=False, bias=len(signature.inputs) > 3, extra=2)


@register("aten.conv_tbc")
def time_batch_channel(signature: Signature) -> Cost:
    """input (T, B, C_in), weight (kernel, C_in, C_out), bias."""
    kernel, channels, _ = signature.inputs[1].shape
    return streamed(signature, "convolution", elements(signature.outputs) * (2 * kernel * channels + 1))


def _backward(signature: Signature, grad: TensorSpec, source: TensorSpec, weight: TensorSpec) -> Cost:
    """The gradients of input and weight each meet every (input, weight, output) triple of the forward once,
    so each costs the forward's multiply-adds; the bias gradient sums grad_output."""
    transposed = bool(signature.attribute("transposed", False))
    mask = signature.attribute("output_mask") or (True, True, True)
    forward = 2 * _multiply_adds(source, weight, grad, transposed=transposed)
    flops = forward * (bool(mask[0]) + bool(mask[1]))
    if len(mask) > 2 and mask[2]:
        flops += grad.numel
    return streamed(signature, "convolution", flops)


@register(
    *aten("_slow_conv2d_backward convolution_backward convolution_backward_overrideable"),
    attributes=("transposed", "groups", "output_mask"),
)
def convolution_backward(signature: Signature) -> Cost:
    """grad_output, input, weight."""
    grad, source, weight = signature.inputs[:3]
    return _backward(signature, grad, source, weight)


@register("aten.mps_convolution_backward", attributes=("groups", "output_mask"))
def input_first_backward(signature: Signature) -> Cost:
    """input, grad_output, weight."""
    source, grad, weight = signature.inputs[:3]
    return _backward(signature, grad, source, weight)


@register("aten.mps_convolution_transpose_backward", attributes=("groups", "output_mask"))
def transposed_backward(signature: Signature) -> Cost:
    """input, grad_output, weight of a transposed convolution; no bias."""
    source, _, weight = signature.inputs[:3]
    mask = signature.attribute("output_mask") or (True, True)
    return streamed(signature, "convolution", 2 * source.numel * prod(weight.shape[1:]) * sum(map(bool, mask)))
