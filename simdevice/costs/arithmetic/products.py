"""Matrix products: 2 FLOPs per multiply-add, and named extras (a bias is 1 per output element)."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from simdevice.costs.arithmetic.basics import contraction, elements, product_of, split_evenly, values_per_element
from simdevice.records import INSIDE, Cost, Extra, Product, Signature, TensorSpec

__all__ = [
    "dims_of",
    "grouped",
    "grouped_gradients",
    "linear",
    "linear_gradients",
    "matmul",
    "matmul_gradients",
    "outputs_extra",
]


def outputs_extra(signature: Signature, **per_output: int | bool) -> list[Extra]:
    """Named extras of so many operations for each element of the first output."""
    count = elements(signature.outputs[:1])
    return [Extra(name, count * per) for name, per in per_output.items()]


def dims_of(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, int, int, int]:
    """(batch, m, k, n) of (..., m, k) x (..., k, n), vectors on either side included.

    One right-hand matrix for all is no batch: the rows of all meet it. Batches broadcast as in NumPy.
    """
    k = left[-1]
    if len(right) == 1:
        return 1, prod(left[:-1]), k, 1
    m, n = (1 if len(left) == 1 else left[-2]), right[-1]
    if prod(right[:-2]) == 1:
        return 1, prod(left[:-1]), k, n
    before, after = left[:-2], right[:-2]
    longest = max(len(before), len(after))
    before, after = (1,) * (longest - len(before)) + before, (1,) * (longest - len(after)) + after
    batch = prod(max(x, y) if x and y else 0 for x, y in zip(before, after, strict=True))
    return batch, m, k, n


def matmul(
    signature: Signature,
    a: int = 0,
    b: int = 1,
    *,
    dims: tuple[int, int, int, int] | None = None,
    packed: bool = False,
    **per_output: int | bool,
) -> Cost:
    """(..., m, k) x (..., k, n) of inputs `a` and `b`; extras per output element by name."""
    left, right = signature.inputs[a], signature.inputs[b]
    dims = dims or dims_of(left.shape, right.shape)
    product = product_of(signature, dims, a, b, 0, packed=packed)
    return contraction(signature, "matmul", [product], outputs_extra(signature, **per_output))


def linear(
    signature: Signature,
    a: int = 0,
    b: int = 1,
    *,
    depth: int | None = None,
    packed: bool = False,
    **per_output: int | bool,
) -> Cost:
    """Rows (..., k) of input `a` times a matrix of n columns, however stored: n is the result's last dimension."""
    source, result = signature.inputs[a], signature.outputs[0]
    columns = result.shape[-1] if result.shape else 1
    k = source.shape[-1] * values_per_element(source) if depth is None else depth
    dims = (1, result.numel // max(columns, 1), k, columns)
    return matmul(signature, a, b, dims=dims, packed=packed, **per_output)


def grouped(signature: Signature, *, biased: bool) -> Cost:
    """Rows, columns or depth of the first two inputs split into groups, each with a matrix of its own.

    Every row meets one group's matrix, so groups add no FLOPs. Which rows meet which is data: a matrix that no row
    meets is not read (a decoded token asks two experts of eight), and as many matrices as there are rows is the most
    that can be read. Rows are shared out evenly.
    """
    left, right = signature.inputs[:2]
    extras, pairs = outputs_extra(signature, bias=biased), values_per_element(left)
    if len(left.shape) == len(right.shape) == 2:  # the depth is split: (m, K) x (K, n), a product for each group
        m, k, n = left.shape[0], left.shape[1] * pairs, right.shape[1]
        groups = signature.outputs[0].shape[0] if len(signature.outputs[0].shape) == 3 else 1
        products = [product_of(signature, (count, m, part, n), 0, 1, 0) for count, part in split_evenly(k, groups)]
        return contraction(signature, "matmul", products, extras)
    if len(left.shape) == len(right.shape):
        batch, m, k, n = dims_of(left.shape, right.shape)
        return contraction(signature, "matmul", [product_of(signature, (batch, m, k * pairs, n), 0, 1, 0)], extras)
    if len(right.shape) == 3:  # rows (M, k) share the matrices of (G, k, n)
        rows, k, (stack, _, n) = left.shape[0], left.shape[1] * pairs, right.shape
        met = min(stack, rows)
        products = [product_of(signature, (count, m, k, n), 0, 1, 0) for count, m in split_evenly(rows, met)]
    else:  # columns (k, N) share the matrices of (G, m, k)
        stack, m, k, columns = left.shape[0], left.shape[1], left.shape[2] * pairs, right.shape[1]
        met = min(stack, columns)
        products = [product_of(signature, (count, m, k, n), 0, 1, 0) for count, n in split_evenly(columns, met)]
    which = 1 if len(right.shape) == 3 else 0
    matrix = signature.inputs[which].nbytes // max(stack, 1)
    return contraction(signature, "matmul", products, extras, read={which: matrix * met})


def grouped_gradients(signature: Signature) -> Cost:
    """Of rows (M, k) x matrices (G, k, n), inputs 0 and 1: both gradients, each with the product's multiply-adds."""
    (rows, k), (stack, _, n) = signature.inputs[0].shape, signature.inputs[1].shape
    products: list[Product] = []
    for count, m in split_evenly(rows, min(stack, rows)):
        products += [
            product_of(signature, (count, m, n, k), INSIDE, 1),  # gradient rows x matrices transposed
            product_of(signature, (count, k, m, n), 0, INSIDE),  # rows transposed x gradient rows
        ]
    return contraction(signature, "matmul", products)


def linear_gradients(
    signature: Signature, grad: int, source: int | None, weight: int | None, mask: tuple[bool, bool, bool], rows_of: int
) -> Cost:
    """Of y = x W^T + b with W (n, k): dx = g W is (rows, n) x (n, k), dW = g^T x is (n, rows) x (rows, k), and
    db sums g over its rows. Places of the three inputs; None where the call does not have it. k is the last
    dimension of input `rows_of`."""
    gradient, k = signature.inputs[grad], signature.inputs[rows_of].shape[-1]
    n = gradient.shape[-1] if gradient.shape else 1
    rows = gradient.numel // max(n, 1)
    outs: Iterator[int] = iter(range(len(signature.outputs)))
    products = []
    if mask[0]:
        products.append(product_of(signature, (1, rows, n, k), grad, INSIDE if weight is None else weight, _next(outs)))
    if mask[1]:
        products.append(product_of(signature, (1, n, rows, k), grad, INSIDE if source is None else source, _next(outs)))
    return contraction(signature, "matmul", products, [Extra("bias gradient", gradient.numel * bool(mask[2]))])


def _next(outs: Iterator[int]) -> tuple[int, ...]:
    place = next(outs, None)
    return INSIDE if place is None else (place,)


def matmul_gradients(signature: Signature, mask: tuple[bool, bool]) -> Cost:
    """Of y = A B, inputs g, A, B: dA = g B^T is (m, n) x (n, k); dB = A^T g is (k, m) x (m, n)."""
    _, left, right = signature.inputs[:3]
    batch, m, k, n = dims_of(left.shape, right.shape)
    outs = iter(range(len(signature.outputs)))
    products = []
    if mask[0]:
        products.append(product_of(signature, (batch, m, n, k), 0, 2, _next(outs)))
    if mask[1]:
        products.append(product_of(signature, (batch, k, m, n), 1, 0, _next(outs)))
    return contraction(signature, "matmul", products)


def affine_grid(signature: Signature, theta: TensorSpec) -> Cost:
    """Each grid point is its homogeneous coordinates (made inside) times theta (N, d, d + 1), input 0."""
    images, dims, columns = theta.shape[0], theta.shape[-2], theta.shape[-1]
    points = elements(signature.outputs) // max(images * dims, 1)
    return contraction(signature, "matmul", [product_of(signature, (images, points, columns, dims), INSIDE, 0, 0)])
