"""Matrix products of ONNX: which inputs are the operands, how they are stored, and what else is fused."""

from __future__ import annotations

from simdevice.costs.arithmetic import einsum as formula
from simdevice.costs.arithmetic import products, unknown
from simdevice.costs.arithmetic.products import dims_of
from simdevice.costs.onnx._common import microsoft, onnx, places
from simdevice.costs.registry import register
from simdevice.records import Cost, Signature, TensorSpec

__all__: list[str] = []

register(*onnx("MatMul MatMulInteger"), *microsoft("MatMulInteger16"))(products.matmul)
"""(..., M, K) x (..., K, N). Zero points and scales belong to the multiply-add."""


@register("onnx.QLinearMatMul")
def quantized_product(signature: Signature) -> Cost:
    """a, its scale and zero point, then b."""
    return products.matmul(signature, 0, 3)


@register("com.microsoft.MatMulBnb4")
def block_product(signature: Signature) -> Cost:
    """B is packed to four bits per element in blocks of a scale."""
    return products.linear(signature, packed=True)


def _stored(signature: Signature, b: int, *, bias: bool = False, activation: int = 0) -> Cost:
    """Operands that may be stored transposed (`transA`, `transB`), and with the dimension before the last as the
    first (`transBatchA`, `transBatchB`)."""
    left, right = signature.inputs[0].shape, signature.inputs[b].shape
    if signature.attribute("transBatchA"):
        left = _rows_first(left)
    if signature.attribute("transBatchB"):
        right = _rows_first(right)
    left = _swapped(left) if signature.attribute("transA") else left
    right = _swapped(right) if signature.attribute("transB") else right
    return products.matmul(signature, 0, b, dims=dims_of(left, right), bias=bias, activation=activation)


def _rows_first(shape: tuple[int, ...]) -> tuple[int, ...]:
    """(rows, ..., columns), as (..., rows, columns)."""
    return (*shape[1:-1], shape[0], shape[-1])


def _swapped(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (*shape[:-2], *shape[:-3:-1])


STORED = ("transA", "transB")


@register("onnx.Gemm", attributes=STORED)
def gemm(signature: Signature) -> Cost:
    """A third tensor is the bias."""
    return _stored(signature, 1, bias=len(signature.inputs) > 2)


@register(*microsoft("FusedMatMul TransposeMatMul GemmFloat8"), attributes=(*STORED, "transBatchA", "transBatchB"))
def fused_product(signature: Signature) -> Cost:
    """A product of operands that may be stored transposed."""
    return _stored(signature, 1)


@register("com.microsoft.FusedMatMulActivation", attributes=STORED)
def product_activation(signature: Signature) -> Cost:
    """The product, then a function of each output element."""
    return _stored(signature, 1, activation=1)


@register("com.microsoft.FusedGemm", "com.microsoft.GemmFastGelu", attributes=STORED)
def gemm_activation(signature: Signature) -> Cost:
    """The product, perhaps a bias, then a function of each output element."""
    return _stored(signature, 1, bias=len(signature.inputs) > 2, activation=1)


@register("com.microsoft.QGemm", attributes=(*STORED, "given"))
def quantized_gemm(signature: Signature) -> Cost:
    """A and B with scales and zero points, perhaps a bias C."""
    stands = places(signature)
    return _stored(signature, stands.get("B", 3), bias="C" in stands)


@register(*microsoft("DynamicQuantizeMatMul MatMulIntegerToFloat"), attributes=("given",))
def product_to_float(signature: Signature) -> Cost:
    """Integer products scaled to floats, perhaps a bias."""
    return products.matmul(signature, bias="bias" in places(signature))


@register("com.microsoft.MatMulNBits", attributes=("K", "given"))
def packed_product(signature: Signature) -> Cost:
    """B is packed to a few bits per element, K x N of them."""
    depth = signature.attribute("K") or signature.inputs[0].shape[-1]
    return products.linear(signature, depth=depth, packed=True, bias="bias" in places(signature))


@register("com.microsoft.MatMulFpQ4")
def blob_product(signature: Signature) -> Cost:
    """B is a blob of 4-bit blocks, each with its scale; `B_shape` says its (K, N)."""
    return products.linear(signature, packed=True)


@register("onnx.Einsum", attributes=("equation",))
def einsum(signature: Signature) -> Cost:
    """Pair by pair from the left; an equation that doesn't fit its operands is unknown."""
    terms = _terms(signature.attribute("equation", ""), signature.inputs)
    if terms is None:
        return unknown(signature, "an equation that doesn't fit its operands")
    names, result = terms
    sizes: dict[str, int] = {}
    for term, tensor in zip(names, signature.inputs, strict=True):
        for name, size in zip(term, tensor.shape, strict=True):
            sizes[name] = size if sizes.get(name, 1) == 1 else sizes[name]
    return formula.einsum(signature, sizes, names, result)


def _terms(equation: str, inputs: tuple[TensorSpec, ...]) -> tuple[list[list[str]], list[str]] | None:
    """The indices of each operand and of the result; "..." stands for as many as are left, counted from the right."""
    written, arrow, kept = equation.replace(" ", "").partition("->")
    terms = written.split(",")
    if len(terms) != len(inputs) or set(kept) - set(written):
        return None
    names = []
    for term, tensor in zip(terms, inputs, strict=True):
        head, dots, tail = term.partition("...")
        rest = len(tensor.shape) - len(head) - len(tail)
        if rest < 0 or (rest and not dots):
            return None
        names.append([*head, *(f"...{i}" for i in range(rest, 0, -1)), *tail])
    seen = [name for term in names for name in term]
    if arrow:
        result = [name for name in seen if name in kept or (name.startswith("...") and "..." in kept)]
    else:  # without an arrow, what occurs once is kept
        result = [name for name in seen if seen.count(name) == 1 or name.startswith("...")]
    return names, result


@register("onnx.AffineGrid")
def affine_grid(signature: Signature) -> Cost:
    """theta (N, d, d+1)."""
    return products.affine_grid(signature, signature.inputs[0])
