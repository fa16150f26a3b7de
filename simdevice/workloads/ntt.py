"""The trace of an RNS polynomial product, the kernel of homomorphic encryption. Computes nothing itself."""

from __future__ import annotations

from simdevice.costs import Costs
from simdevice.records import OpTable, Origin, Signature, TensorSpec, Trace, TraceBuilder

__all__ = ["rns_product_trace"]


def rns_product_trace(ring: int = 2**16, limbs: int = 24) -> Trace:
    """The operators of one RNS polynomial product: per limb NTT of a, NTT of b, pointwise product,
    inverse NTT, on words of 8 bytes."""
    limb = TensorSpec((ring,), "uint64")
    builder = TraceBuilder(OpTable(Costs()))
    forward, inverse = (Signature(name, (limb,), (limb,)) for name in ("fhe.ntt", "fhe.intt"))
    product = Signature("fhe.mul", (limb, limb), (limb,))
    for i in range(limbs):
        a, b, a_hat, b_hat, c_hat, c = range(6 * i, 6 * i + 6)
        scope = builder.scope(f"limb{i}")
        builder.add(forward, (a, a_hat), scope=scope)
        builder.add(forward, (b, b_hat), scope=scope)
        builder.add(product, (a_hat, b_hat, c_hat), scope=scope)
        builder.add(inverse, (c_hat, c), scope=scope)
    return builder.finish(Origin("ntt", workload=f"RNS product, N={ring}, {limbs} limbs"))
