"""Fourier transforms of ATen: which side is real."""

from __future__ import annotations

from simdevice.costs.arithmetic import fourier
from simdevice.costs.registry import register
from simdevice.records import Cost, Signature, TensorSpec

__all__: list[str] = []


def _along(signature: Signature, side: TensorSpec, *, real: bool) -> Cost:
    """Along every dimension of `dim`, of the side that has all elements."""
    dims = signature.attribute("dim", (-1,))
    return fourier(signature, side.numel, [side.shape[d] for d in dims], real=real)


@register("aten._fft_c2c", attributes=("dim",))
def complex_to_complex(signature: Signature) -> Cost:
    """Neither side is real."""
    return _along(signature, signature.inputs[0], real=False)


@register("aten._fft_r2c", attributes=("dim",))
def real_to_complex(signature: Signature) -> Cost:
    """The real side is the input."""
    return _along(signature, signature.inputs[0], real=True)


@register("aten._fft_c2r", attributes=("dim",))
def complex_to_real(signature: Signature) -> Cost:
    """The real side is the output."""
    return _along(signature, signature.outputs[0], real=True)
