"""Resampling: 2 FLOPs for each source element that an output element is mixed from; nearest only copies."""

from __future__ import annotations

from simdevice.costs.aten._common import aten
from simdevice.costs.registry import register, streamed
from simdevice.records import Cost, Signature, TensorSpec
from simdevice.units import ceil_div

__all__: list[str] = []

NEAREST = aten("""
    _upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d upsample_nearest1d upsample_nearest2d
    upsample_nearest3d
""")


@register(*NEAREST)
def nearest(signature: Signature) -> Cost:
    """Each output element is a copy."""
    return streamed(signature, "movement", 0)


NEAREST_BACKWARD = aten("""
    _upsample_nearest_exact1d_backward _upsample_nearest_exact2d_backward _upsample_nearest_exact3d_backward
    upsample_nearest1d_backward upsample_nearest2d_backward upsample_nearest3d_backward
""")


@register(*NEAREST_BACKWARD)
def nearest_backward(signature: Signature) -> Cost:
    """Adds each gradient to the element that was copied."""
    return streamed(signature, "reduction", signature.inputs[0].numel)


def _mixed(signature: Signature, fine: TensorSpec, taps: int) -> Cost:
    """`fine` is the interpolated side: the output, or backward its gradient."""
    return streamed(signature, "pooling", 2 * taps * fine.numel)


@register("aten.upsample_linear1d")
def linear(signature: Signature) -> Cost:
    """2 taps."""
    return _mixed(signature, signature.outputs[0], 2)


@register("aten.upsample_bilinear2d")
def bilinear(signature: Signature) -> Cost:
    """2 x 2 taps."""
    return _mixed(signature, signature.outputs[0], 4)


@register("aten.upsample_trilinear3d")
def trilinear(signature: Signature) -> Cost:
    """2 x 2 x 2 taps."""
    return _mixed(signature, signature.outputs[0], 8)


@register("aten.upsample_bicubic2d")
def bicubic(signature: Signature) -> Cost:
    """4 x 4 taps."""
    return _mixed(signature, signature.outputs[0], 16)


@register("aten.upsample_linear1d_backward")
def linear_backward(signature: Signature) -> Cost:
    """Each gradient goes back to its 2 taps."""
    return _mixed(signature, signature.inputs[0], 2)


@register("aten.upsample_bilinear2d_backward")
def bilinear_backward(signature: Signature) -> Cost:
    """Each gradient goes back to its 2 x 2 taps."""
    return _mixed(signature, signature.inputs[0], 4)


@register("aten.upsample_trilinear3d_backward")
def trilinear_backward(signature: Signature) -> Cost:
    """Each gradient goes back to its 2 x 2 x 2 taps."""
    return _mixed(signature, signature.inputs[0], 8)


@register("aten.upsample_bicubic2d_backward")
def bicubic_backward(signature: Signature) -> Cost:
    """Each gradient goes back to its 4 x 4 taps."""
    return _mixed(signature, signature.inputs[0], 16)


def _antialiased(signature: Signature, support: int, *, backward: bool = False) -> Cost:
    """Columns first, then rows. Shrinking widens the filter: `support` taps at the coarser of the two spacings."""
    small, large = (signature.outputs[0], signature.inputs[0])
    source, target = (small, large) if backward else (large, small)
    (high, wide), (tall, broad) = source.shape[-2:], target.shape[-2:]
    images = target.numel // max(tall * broad, 1)
    across = max(support, ceil_div(support * wide, max(broad, 1)))
    down = max(support, ceil_div(support * high, max(tall, 1)))
    return streamed(signature, "pooling", 2 * images * (high * broad * across + tall * broad * down))


@register("aten._upsample_bilinear2d_aa")
def antialiased_bilinear(signature: Signature) -> Cost:
    """A triangle filter."""
    return _antialiased(signature, 2)


@register("aten._upsample_bicubic2d_aa")
def antialiased_bicubic(signature: Signature) -> Cost:
    """A cubic filter."""
    return _antialiased(signature, 4)


@register("aten._upsample_lanczos2d_aa")
def antialiased_lanczos(signature: Signature) -> Cost:
    """A Lanczos filter of three lobes each side."""
    return _antialiased(signature, 6)


@register("aten._upsample_bilinear2d_aa_backward")
def antialiased_bilinear_backward(signature: Signature) -> Cost:
    """The same taps, from the gradient to the smaller or larger source."""
    return _antialiased(signature, 2, backward=True)


@register("aten._upsample_bicubic2d_aa_backward")
def antialiased_bicubic_backward(signature: Signature) -> Cost:
    """The same taps, from the gradient to the smaller or larger source."""
    return _antialiased(signature, 4, backward=True)


@register("aten._upsample_lanczos2d_aa_backward")
def antialiased_lanczos_backward(signature: Signature) -> Cost:
    """The same taps, from the gradient to the smaller or larger source."""
    return _antialiased(signature, 6, backward=True)


# Sampling at given points


def _taps(signature: Signature) -> int:
    """Modes: 0 bilinear (2 per dimension), 1 nearest, 2 bicubic (4 per dimension)."""
    dims = len(signature.inputs[0].shape) - 2
    per_dim = {0: 2, 1: 0, 2: 4}[signature.attribute("interpolation_mode", 0)]
    return int(per_dim**dims)


@register(
    *aten("_grid_sampler_2d_cpu_fallback cudnn_grid_sampler grid_sampler grid_sampler_2d grid_sampler_3d"),
    attributes=("interpolation_mode",),
)
def grid_sample(signature: Signature) -> Cost:
    """input (N, C, *spatial), grid (N, *out, dims)."""
    return _mixed(signature, signature.outputs[0], _taps(signature))


@register(
    *aten("_grid_sampler_2d_cpu_fallback_backward grid_sampler_2d_backward grid_sampler_3d_backward"),
    attributes=("interpolation_mode",),
)
def grid_sample_backward(signature: Signature) -> Cost:
    """grad_output, input, grid: the taps once for the gradient of the input, once for the grid's."""
    return _mixed(signature, signature.inputs[0], 2 * _taps(signature))


@register("aten.cudnn_grid_sampler_backward")
def cudnn_grid_sample_backward(signature: Signature) -> Cost:
    """input, grid, grad_output; always bilinear."""
    return _mixed(signature, signature.inputs[2], 2 * _taps(signature))
