"""Fourier transforms: 5 n log2 n FLOPs for a complex transform of length n, half of that for a real one."""

from __future__ import annotations

from simdevice.costs.arithmetic import RADIX_2, ceil_log2
from simdevice.costs.registry import register, streamed
from simdevice.records import Cost, Signature, TensorSpec

__all__: list[str] = []


def _complex_flops(tensor: TensorSpec, dims: tuple[int, ...]) -> int:
    """A transform along each of `dims`: numel/n lines of 5 n log2 n each.

    A radix-2 butterfly is a complex multiplication (6) and two complex additions (4); n/2*log2 n of
    them make 5 n log2 n.
    """
    return 5 * tensor.numel * sum(ceil_log2(tensor.shape[d]) for d in dims)


@register("aten._fft_c2c", attributes=("dim",))
def complex_to_complex(signature: Signature) -> Cost:
    """Along every dimension of `dim`."""
    source = signature.inputs[0]
    return streamed(signature, "fft", _complex_flops(source, signature.attribute("dim", (-1,))), reason=RADIX_2)


@register("aten._fft_r2c", attributes=("dim",))
def real_to_complex(signature: Signature) -> Cost:
    """The real side has all elements; symmetry halves the work."""
    source = signature.inputs[0]
    return streamed(signature, "fft", _complex_flops(source, signature.attribute("dim", (-1,))) // 2, reason=RADIX_2)


@register("aten._fft_c2r", attributes=("dim",))
def complex_to_real(signature: Signature) -> Cost:
    """The real side is the output."""
    target = signature.outputs[0]
    return streamed(signature, "fft", _complex_flops(target, signature.attribute("dim", (-1,))) // 2, reason=RADIX_2)
