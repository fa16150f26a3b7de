"""Convolutions of ATen: which way they go, and what else is fused."""

from __future__ import annotations

from simdevice.costs.arithmetic import contraction
from simdevice.costs.arithmetic import convolution as formula
from simdevice.costs.arithmetic.basics import product_of
from simdevice.costs.arithmetic.products import outputs_extra
from simdevice.costs.aten._common import aten
from simdevice.costs.registry import register
from simdevice.records import Cost, Signature

__all__: list[str] = []

SLIDES = ("groups", "stride", "dilation")
"""The attributes that say how a window slides."""


def _forward(signature: Signature, *, transposed: bool, tensors: int = 2, **fused: int) -> Cost:
    """A tensor after the first `tensors` is the bias."""
    extras = outputs_extra(signature, bias=len(signature.inputs) > tensors, **fused)
    return formula.convolve(signature, extras, transposed=transposed)


@register(
    *aten("_convolution _mps_convolution convolution convolution_overrideable cudnn_convolution miopen_convolution"),
    *aten("miopen_depthwise_convolution mkldnn_convolution"),
    attributes=("transposed", *SLIDES),
)
def either_way(signature: Signature) -> Cost:
    """An attribute says which."""
    return _forward(signature, transposed=bool(signature.attribute("transposed", False)))


@register(
    *aten("_conv_depthwise2d _nnpack_spatial_convolution _slow_conv2d_forward conv1d conv2d conv3d conv_depthwise3d"),
    *aten("slow_conv3d slow_conv3d_forward slow_conv_dilated2d slow_conv_dilated3d thnn_conv2d"),
    attributes=SLIDES,
)
def forward_only(signature: Signature) -> Cost:
    """Operators that have no transposed form."""
    return _forward(signature, transposed=False)


@register(
    *aten("_mps_convolution_transpose cudnn_convolution_transpose miopen_convolution_transpose"),
    *aten("conv_transpose1d conv_transpose2d conv_transpose3d slow_conv_transpose2d slow_conv_transpose3d"),
    attributes=SLIDES,
)
def transposed_only(signature: Signature) -> Cost:
    """Operators that are always transposed."""
    return _forward(signature, transposed=True)


@register("aten.cudnn_convolution_relu", attributes=SLIDES)
def convolution_relu(signature: Signature) -> Cost:
    """The convolution, then ReLU on each output element."""
    return _forward(signature, transposed=False, activation=1)


@register("aten.cudnn_convolution_add_relu", attributes=SLIDES)
def convolution_add_relu(signature: Signature) -> Cost:
    """The convolution plus alpha*z (the third tensor), then ReLU."""
    return _forward(signature, transposed=False, tensors=3, addend=1, activation=1)


@register("aten.conv_tbc")
def time_batch_channel(signature: Signature) -> Cost:
    """input (T, B, C_in), weight (kernel, C_in, C_out), bias."""
    (kernel, channels, columns), result = signature.inputs[1].shape, signature.outputs[0].shape
    length, images = signature.inputs[0].shape[:2]
    window = formula.window_of(signature, (length,), result[:1], (kernel,), images)
    dims = (1, result[0] * result[1], kernel * channels, columns)
    product = product_of(signature, dims, 0, 1, 0, window=window, windowed="a")
    return contraction(signature, "convolution", [product], outputs_extra(signature, bias=1))


def _mask(signature: Signature, wanted: int) -> tuple[bool, ...]:
    return tuple(map(bool, signature.attribute("output_mask") or (True,) * wanted))


@register(
    *aten("_slow_conv2d_backward convolution_backward convolution_backward_overrideable"),
    attributes=("transposed", "output_mask", *SLIDES),
)
def convolution_backward(signature: Signature) -> Cost:
    """grad_output, input, weight."""
    transposed = bool(signature.attribute("transposed", False))
    return formula.gradients(signature, 0, 1, 2, _mask(signature, 3), transposed=transposed)


@register("aten.mps_convolution_backward", attributes=("output_mask", *SLIDES))
def input_first_backward(signature: Signature) -> Cost:
    """input, grad_output, weight."""
    return formula.gradients(signature, 1, 0, 2, _mask(signature, 3), transposed=False)


@register("aten.mps_convolution_transpose_backward", attributes=("output_mask", *SLIDES))
def transposed_backward(signature: Signature) -> Cost:
    """input, grad_output, weight of a transposed convolution; no bias."""
    return formula.gradients(signature, 1, 0, 2, _mask(signature, 2), transposed=True)
