"""Rules for homomorphic encryption's polynomial arithmetic: transforms and products of residues, the last
dimension being the ring dimension N. One operation is one modular operation on one word."""

from __future__ import annotations

from dataclasses import replace

from simdevice.costs.registry import register, streamed
from simdevice.records import Cost, Signature

__all__ = ["BUTTERFLY_OPS", "butterflies", "pointwise", "transform"]

BUTTERFLY_OPS = 3
"""A modular multiplication, an addition and a subtraction."""


def butterflies(signature: Signature) -> int:
    """N/2 * log2 N for each polynomial of the input; N is a power of two."""
    polynomial = signature.inputs[0]
    ring = polynomial.shape[-1]
    return polynomial.numel // ring * (ring // 2) * (ring.bit_length() - 1)


@register("fhe.ntt", "fhe.intt")
def transform(signature: Signature) -> Cost:
    """A number-theoretic transform, or its inverse: its butterflies. Twiddle factors are on chip."""
    count = butterflies(signature)
    # A lane does a butterfly at a time; in flight, on data on its way in, its operations are done one by one.
    return replace(
        streamed(signature, "fft", BUTTERFLY_OPS * count), lane_ops=count, in_flight_ops=BUTTERFLY_OPS * count
    )


@register("fhe.mul", "fhe.add", "fhe.sub")
def pointwise(signature: Signature) -> Cost:
    """One operation per residue."""
    return streamed(signature, "elementwise", sum(t.numel for t in signature.outputs))
