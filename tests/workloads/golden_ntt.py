"""Number-theoretic transforms in NumPy: what the operators of an RNS polynomial product compute."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "intt",
    "is_prime",
    "negacyclic_product",
    "ntt",
    "primes",
    "primitive_root",
    "rns_product",
]

Words = NDArray[np.uint64]

LARGEST_MODULUS = 2**32
"""So that the product of two residues fits 64 bits."""

_WITNESSES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)


def is_prime(n: int) -> bool:
    """Miller-Rabin; these witnesses decide every n below 3.3e24 (Sorenson and Webster, 2015)."""
    if n < 2 or any(n % p == 0 for p in _WITNESSES):
        return n in _WITNESSES
    odd, twos = n - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for witness in _WITNESSES:
        x = pow(witness, odd, n)
        if x not in (1, n - 1) and not any((x := x * x % n) == n - 1 for _ in range(twos - 1)):
            return False
    return True


def primes(ring: int, count: int, bits: int = 31) -> list[int]:
    """The largest primes below 2**bits that are 1 modulo 2*ring, so that a ring's transform exists.

    Raises:
        ValueError: there are fewer than `count`.
    """
    step, found = 2 * ring, list[int]()
    for candidate in range((2**bits - 2) // step * step + 1, step, -step):
        if is_prime(candidate):
            found.append(candidate)
        if len(found) == count:
            return found
    raise ValueError(f"there are only {len(found)} primes of {bits} bits for a ring of {ring}, not {count}")


def primitive_root(order: int, modulus: int) -> int:
    """A number whose powers repeat after exactly `order` (a power of two) steps modulo a prime."""
    if (modulus - 1) % order:
        raise ValueError(f"no root of order {order} modulo {modulus}: {order} must divide {modulus - 1}")
    for base in range(2, modulus):
        root = pow(base, (modulus - 1) // order, modulus)
        if pow(root, order // 2, modulus) == modulus - 1:
            return root
    raise ValueError(f"{modulus} is not a prime")


def ntt(values: Words, modulus: int, root: int) -> Words:
    """The cyclic transform X[k] = sum_j x[j] * root**(j*k), iteratively: bit reversal, then log2 N
    passes of N/2 butterflies (decimation in time; Cooley and Tukey, 1965)."""
    out, q = _checked(values, modulus)[_bit_reversed(len(values))], np.uint64(modulus)
    half = 1
    while half < len(out):
        twiddles = _powers(pow(root, len(out) // (2 * half), modulus), half, modulus)
        pairs = out.reshape(-1, 2, half)
        even, odd = pairs[:, 0], pairs[:, 1] * twiddles % q
        out = np.stack([(even + odd) % q, (even + q - odd) % q], axis=1).reshape(-1)
        half *= 2
    return out


def intt(values: Words, modulus: int, root: int) -> Words:
    """The inverse of `ntt` with the same root."""
    scale = np.uint64(pow(len(values), -1, modulus))
    return ntt(values, modulus, pow(root, -1, modulus)) * scale % np.uint64(modulus)


def negacyclic_product(a: Words, b: Words, modulus: int) -> Words:
    """a * b modulo x**N + 1 and a prime: twisting by powers of a 2N-th root makes it cyclic."""
    ring, q = len(a), np.uint64(modulus)
    psi = primitive_root(2 * ring, modulus)
    twist, untwist = _powers(psi, ring, modulus), _powers(pow(psi, -1, modulus), ring, modulus)
    omega = psi * psi % modulus
    left, right = (ntt(_checked(x, modulus) * twist % q, modulus, omega) for x in (a, b))
    return intt(left * right % q, modulus, omega) * untwist % q


def rns_product(a: Words, b: Words, moduli: Sequence[int]) -> Words:
    """The product of two polynomials in residues, shape (limbs, N): each limb for itself."""
    return np.stack([negacyclic_product(x, y, q) for x, y, q in zip(a, b, moduli, strict=True)])


def _checked(values: Words, modulus: int) -> Words:
    if len(values) & (len(values) - 1) or not len(values):
        raise ValueError(f"expected a power of two of coefficients, got {len(values)}")
    if not 2 < modulus < LARGEST_MODULUS:
        raise ValueError(f"expected a modulus between 2 and {LARGEST_MODULUS}, got {modulus}")
    return np.asarray(values, np.uint64) % np.uint64(modulus)


def _bit_reversed(length: int) -> NDArray[np.int64]:
    order = np.zeros(1, np.int64)
    while len(order) < length:
        order = np.concatenate([2 * order, 2 * order + 1])
    return order


def _powers(base: int, count: int, modulus: int) -> Words:
    """base**0 ... base**(count - 1), by doubling."""
    powers, step = np.ones(1, np.uint64), base % modulus
    while len(powers) < count:
        powers = np.concatenate([powers, powers * np.uint64(step) % np.uint64(modulus)])
        step = step * step % modulus
    return powers[:count]
