"""Resampling in ATen: taps by operator."""

from __future__ import annotations

from functools import partial

from simdevice.costs.arithmetic import movement
from simdevice.costs.arithmetic.sampling import antialiased, mixed
from simdevice.costs.aten._common import aten
from simdevice.costs.registry import register, streamed
from simdevice.records import Cost, Signature

__all__: list[str] = []

register(
    *aten("_upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d"),
    *aten("upsample_nearest1d upsample_nearest2d upsample_nearest3d"),
)(movement)

NEAREST_BACKWARD = aten("""
    _upsample_nearest_exact1d_backward _upsample_nearest_exact2d_backward _upsample_nearest_exact3d_backward
    upsample_nearest1d_backward upsample_nearest2d_backward upsample_nearest3d_backward
""")


@register(*NEAREST_BACKWARD)
def nearest_backward(signature: Signature) -> Cost:
    """Adds each gradient to the element that was copied."""
    return streamed(signature, "reduction", signature.inputs[0].numel)


TAPS = {"linear1d": 2, "bilinear2d": 4, "trilinear3d": 8, "bicubic2d": 16}
"""2 per dimension, cubic 4."""

LOBES = {"bilinear2d": 2, "bicubic2d": 4, "lanczos2d": 6}
"""Support of the antialiasing filters: a triangle, a cubic, a Lanczos of three lobes each side."""


def _forward(signature: Signature, taps: int) -> Cost:
    return mixed(signature, signature.outputs[0], taps)


def _backward(signature: Signature, taps: int) -> Cost:
    """Each gradient goes back to its taps."""
    return mixed(signature, signature.inputs[0], taps)


for _kind, _count in TAPS.items():
    register(f"aten.upsample_{_kind}")(partial(_forward, taps=_count))
    register(f"aten.upsample_{_kind}_backward")(partial(_backward, taps=_count))
for _kind, _lobes in LOBES.items():
    register(f"aten._upsample_{_kind}_aa")(partial(antialiased, support=_lobes))
    register(f"aten._upsample_{_kind}_aa_backward")(partial(antialiased, support=_lobes, backward=True))


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
    return mixed(signature, signature.outputs[0], _taps(signature))


@register(
    *aten("_grid_sampler_2d_cpu_fallback_backward grid_sampler_2d_backward grid_sampler_3d_backward"),
    attributes=("interpolation_mode",),
)
def grid_sample_backward(signature: Signature) -> Cost:
    """grad_output, input, grid: the taps once for the gradient of the input, once for the grid's."""
    return mixed(signature, signature.inputs[0], 2 * _taps(signature))


@register("aten.cudnn_grid_sampler_backward")
def cudnn_grid_sample_backward(signature: Signature) -> Cost:
    """input, grid, grad_output; always bilinear."""
    return mixed(signature, signature.inputs[2], 2 * _taps(signature))
