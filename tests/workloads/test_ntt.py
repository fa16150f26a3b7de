"""The golden transform against schoolbook products and sympy; the trace's operators and their costs."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from golden_ntt import (
    intt,
    is_prime,
    negacyclic_product,
    ntt,
    primes,
    primitive_root,
    rns_product,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from sympy import isprime
from sympy.discrete.transforms import intt as sympy_intt
from sympy.discrete.transforms import ntt as sympy_ntt
from sympy.ntheory import primitive_root as sympy_primitive_root

from simdevice.workloads.ntt import rns_product_trace

WORDS = st.integers(0, 2**40)


def schoolbook(a: list[int], b: list[int], modulus: int) -> list[int]:
    """a * b modulo x**N + 1: what passes x**N comes back with the other sign."""
    ring = len(a)
    out = [0] * ring
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            out[(i + j) % ring] += x * y if i + j < ring else -x * y
    return [value % modulus for value in out]


@st.composite
def polynomials(draw: st.DrawFn, count: int = 2) -> tuple[int, list[np.ndarray]]:
    """A prime and polynomials of one ring modulo it."""
    ring = 2 ** draw(st.integers(0, 5))
    modulus = draw(st.sampled_from(primes(ring, 3, draw(st.sampled_from([16, 31])))))
    coefficients = st.lists(WORDS, min_size=ring, max_size=ring)
    return modulus, [np.array(draw(coefficients), np.uint64) for _ in range(count)]


@settings(max_examples=60)
@given(polynomials())
def test_negacyclic_products_are_the_schoolbooks(made: tuple[int, list[np.ndarray]]) -> None:
    modulus, (a, b) = made
    assert negacyclic_product(a, b, modulus).tolist() == schoolbook(a.tolist(), b.tolist(), modulus)


@settings(max_examples=60)
@given(polynomials(count=1))
def test_the_inverse_undoes_the_transform(made: tuple[int, list[np.ndarray]]) -> None:
    modulus, (a,) = made
    root = primitive_root(len(a), modulus) if len(a) > 1 else 1
    assert intt(ntt(a, modulus, root), modulus, root).tolist() == (a % modulus).tolist()


@pytest.mark.parametrize("ring", [2, 8, 64, 256])
def test_the_transform_is_sympys(ring: int) -> None:
    (modulus,) = primes(ring, 1)
    values = np.random.default_rng(ring).integers(0, modulus, ring).astype(np.uint64)
    root = pow(int(sympy_primitive_root(modulus)), (modulus - 1) // ring, modulus)  # the root sympy takes
    expected = sympy_ntt(values.tolist(), modulus)
    assert ntt(values, modulus, root).tolist() == expected
    assert (
        intt(np.array(expected, np.uint64), modulus, root).tolist() == sympy_intt(expected, modulus) == values.tolist()
    )


def test_a_product_of_a_thousand_coefficients_is_sympys() -> None:
    ring, modulus = 1024, 12289  # the ring of NewHope
    generator = np.random.default_rng(0)
    a, b = (generator.integers(0, modulus, ring).astype(np.uint64) for _ in range(2))
    assert negacyclic_product(a, b, modulus).tolist() == schoolbook(a.tolist(), b.tolist(), modulus)


def test_residues_are_multiplied_limb_by_limb() -> None:
    moduli = primes(16, 3)
    generator = np.random.default_rng(1)
    a, b = (generator.integers(0, 2**31, (3, 16)).astype(np.uint64) for _ in range(2))
    found = rns_product(a, b, moduli)
    for limb, modulus in enumerate(moduli):
        assert found[limb].tolist() == schoolbook(a[limb].tolist(), b[limb].tolist(), modulus)


def test_primes_have_the_roots_that_the_ring_needs() -> None:
    found = primes(2**16, 24)
    assert len(set(found)) == 24
    for prime in found:
        assert isprime(prime)
        assert prime % 2**17 == 1
        assert prime < 2**31
        root = primitive_root(2**17, prime)
        assert pow(root, 2**16, prime) == prime - 1


@given(st.integers(0, 10**6) | st.integers(0, 2**64))
def test_primality_is_sympys(n: int) -> None:
    assert is_prime(n) == isprime(n)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ntt(np.ones(3, np.uint64), 17, 2), "expected a power of two of coefficients, got 3"),
        (lambda: ntt(np.ones(4, np.uint64), 2**33, 2), "expected a modulus between 2 and 4294967296, got 8589934592"),
        (lambda: primitive_root(8, 13), "no root of order 8 modulo 13: 8 must divide 12"),
        (lambda: primes(2**16, 99, bits=20), "there are only 1 primes of 20 bits for a ring of 65536, not 99"),
    ],
)
def test_what_cannot_be_is_refused(call: object, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        call()  # type: ignore[operator]


def test_the_trace_is_four_operators_per_limb() -> None:
    trace = rns_product_trace(2**16, 24)
    assert Counter(op.name for op in trace.ops) == {"fhe.ntt": 48, "fhe.mul": 24, "fhe.intt": 24}
    forward, _, product, inverse = trace.ops[:4]
    # 2**15 x 16 butterflies of 3 operations; 2**16 words of 8 bytes in and out
    assert forward.flops == inverse.flops == 3 * 2**15 * 16
    assert forward.bytes == 2 * 8 * 2**16
    assert product.flops == 2**16
    assert product.bytes == 3 * 8 * 2**16
    assert inverse.inputs[0].id == product.outputs[0].id
    assert trace.ops[-1].scope == "limb23"
    assert trace.unknown() == {}
