"""Convolutions as products over windows (im2col), and their gradients.

y[o] = sum over c, t of x[c, o * stride + t * dilation - padding] * w[o, c, t]. Every (place, c, t, output channel) is
one multiply-add: places * C_in/g * kernel * C_out of them. As a product, the windows of x are the left operand.

- Forward, per group: (places, C_in/g * kernel) x (C_in/g * kernel, C_out/g).
- dx is the scatter of (places, C_out/g) x (C_out/g, C_in/g * kernel): each gradient goes back over its window, and
  where windows overlap, what they give is summed.
- dw is (C_out/g, places) x (places, C_in/g * kernel): gradients meet the windows of x.
- A transposed convolution is that scatter: its forward is dx of the plain one, with x for the gradient. So its own
  dx gathers windows of the gradient, (places, C_out/g * kernel) x (C_out/g * kernel, C_in/g), and its dw meets x with
  them.

Padding and pixels that no window touches: the whole picture is read (memory moves rows, not pixels); windows that
reach beyond it are the product's excess.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from simdevice.costs.arithmetic.basics import contraction, product_of
from simdevice.records import INSIDE, Cost, Extra, Product, Signature, Window

__all__ = ["convolve", "gradients", "window_of"]


def _per_dimension(value: object, dims: int) -> tuple[int, ...]:
    """One number per spatial dimension, of an attribute that may be absent, one number, or a list."""
    if isinstance(value, int):
        return (value,) * dims
    if isinstance(value, (tuple, list)) and value and all(isinstance(n, int) for n in value):
        return tuple(value) if len(value) == dims else (value[0],) * dims
    return (1,) * dims


def window_of(
    signature: Signature, size: Sequence[int], result: Sequence[int], kernel: Sequence[int], images: int
) -> Window:
    """The window that a call's attributes describe (`stride`, `dilation`; ONNX: `strides`, `dilations`)."""
    dims = len(kernel)
    stride = signature.attribute("stride") or signature.attribute("strides")
    dilation = signature.attribute("dilation") or signature.attribute("dilations")
    return Window(
        images,
        tuple(size),
        tuple(result),
        tuple(kernel),
        _per_dimension(stride, dims),
        _per_dimension(dilation, dims),
    )


def _groups(signature: Signature) -> int:
    return max(1, int(signature.attribute("groups") or signature.attribute("group") or 1))


def _window(signature: Signature, picture: tuple[int, ...], places: tuple[int, ...], kernel: tuple[int, ...]) -> Window:
    """Pictures are (images, channels, *spatial), or without images."""
    dims = len(kernel)
    images = prod(picture[: -dims - 1]) if dims else 1
    return window_of(signature, picture[len(picture) - dims :], places[len(places) - dims :], kernel, images)


def convolve(
    signature: Signature,
    extras: Iterable[Extra] = (),
    *,
    weight: int = 1,
    transposed: bool = False,
    channels_last: bool = False,
    weight_last: bool = False,
) -> Cost:
    """x (input 0) and a weight (C_out, C_in/g, *kernel); transposed: (C_in, C_out/g, *kernel). Channels may be last,
    in x and the result, and in the weight: (C_out, *kernel, C_in/g)."""
    source, filters, result = signature.inputs[0], signature.inputs[weight], signature.outputs[0]
    kernel, groups = filters.shape[2:], _groups(signature)
    columns = prod(filters.shape[1:])
    if transposed:
        pixels = source.numel // max(1, filters.shape[0])
        dims = (groups, pixels, filters.shape[0] // groups, columns)
        window, windowed = _window(signature, result.shape, source.shape, kernel), "out"
    else:
        pixels = result.numel // max(1, filters.shape[0])
        dims = (groups, pixels, columns, filters.shape[0] // groups)
        picture, places = (_channels_first(t.shape) if channels_last else t.shape for t in (source, result))
        if weight_last:
            kernel = filters.shape[1:-1]
        window, windowed = _window(signature, picture, places, kernel), "a"
    product = product_of(signature, dims, 0, weight, 0, window=window, windowed=windowed)
    return contraction(signature, "convolution", [product], extras)


def _channels_first(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (shape[0], shape[-1], *shape[1:-1])


def gradients(
    signature: Signature, grad: int, source: int, weight: int, mask: tuple[bool, ...], *, transposed: bool
) -> Cost:
    """Places of the gradient, the picture and the weight; the mask asks for dx, dw, db. See the module for why."""
    places = iter(range(len(signature.outputs)))

    def out() -> tuple[int, ...]:
        place = next(places, None)
        return INSIDE if place is None else (place,)

    gradient, picture, filters = (signature.inputs[i] for i in (grad, source, weight))
    groups, columns = _groups(signature), prod(filters.shape[1:])
    channels, kernel = filters.shape[0] // groups, filters.shape[2:]
    few, many = (gradient, picture) if not transposed else (picture, gradient)  # `many` is what windows slide over
    pixels = few.numel // max(1, filters.shape[0])
    window = _window(signature, many.shape, few.shape, kernel)
    products: list[Product] = []
    if mask[0] and transposed:
        dims = (groups, pixels, columns, channels)
        products.append(product_of(signature, dims, grad, weight, out(), window=window, windowed="a"))
    elif mask[0]:
        dims = (groups, pixels, channels, columns)
        products.append(product_of(signature, dims, grad, weight, out(), window=window, windowed="out"))
    if mask[1]:
        left, right = (source, grad) if transposed else (grad, source)
        dims = (groups, channels, pixels, columns)
        products.append(product_of(signature, dims, left, right, out(), window=window, windowed="b"))
    sums = gradient.numel if len(mask) > 2 and mask[2] else 0
    return contraction(signature, "convolution", products, [Extra("bias gradient", sums)])
