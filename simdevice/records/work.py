"""What an operator computes, as its cost rule states it: matrix products and named vector work. No rule of its own."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["INSIDE", "Extra", "Product", "Window"]

INSIDE: tuple[int, ...] = ()
"""The operand (or result) that is no tensor of the call: the operator makes it, and uses it, itself."""


@dataclass(frozen=True, slots=True)
class Window:
    """How a convolution's product slides: over `images` pictures of `size`, giving `result` places each.

    One number per spatial dimension in `size`, `result`, `kernel`, `stride` and `dilation`. The windowed operand
    holds each place's window written out (im2col), padding included.
    """

    images: int
    size: tuple[int, ...]
    result: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Product:
    """`batch` products of (m, k) x (k, n): 2 * batch * m * k * n FLOPs.

    `a`, `b`: the inputs that each operand lies in (several where it is a cache and what is new; INSIDE for none);
    `out`: the output. `a_bytes`, `b_bytes`, `out_bytes` are what of the call's own bytes they stand for, each byte
    of the call counted at one operand only. `chained`: it reads what the product before it made. `window` belongs to
    operand `windowed` ("a" or "b"), or to the result of a scatter ("out").
    """

    batch: int
    m: int
    k: int
    n: int
    a_bits: int
    b_bits: int
    out_bits: int
    chained: bool = False
    a: tuple[int, ...] = INSIDE
    b: tuple[int, ...] = INSIDE
    out: tuple[int, ...] = INSIDE
    a_bytes: int = 0
    b_bytes: int = 0
    out_bytes: int = 0
    window: Window | None = None
    windowed: str = ""

    @property
    def flops(self) -> int:
        return 2 * self.batch * self.m * self.k * self.n

    @property
    def a_loaded(self) -> int:
        """Bytes of the left operand written out once."""
        return -(-self.a_bits * self.batch * self.m * self.k // 8)

    @property
    def b_loaded(self) -> int:
        """Bytes of the right operand written out once."""
        return -(-self.b_bits * self.batch * self.k * self.n // 8)

    @property
    def out_stored(self) -> int:
        """Bytes of the result written out once."""
        return -(-self.out_bits * self.batch * self.m * self.n // 8)


@dataclass(frozen=True, slots=True)
class Extra:
    """FLOPs of an operator beside its products, by name ("bias", "softmax", "gates").

    Where it is `staged` it is a pass of the vector lanes after the products, such as a norm or a cell's gates; else
    it happens on the way out of the array, as a bias does.
    """

    name: str
    flops: int
    staged: bool = False
