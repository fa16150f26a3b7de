"""Matrix products: 2 FLOPs per multiply-add, and 1 per output element for a bias."""

from __future__ import annotations

from math import prod

from simdevice.costs.onnx._common import elements, microsoft, onnx, unknown
from simdevice.costs.registry import register, streamed
from simdevice.records import Cost, Signature, TensorSpec

__all__: list[str] = []


def _product(signature: Signature, depth: int, extra: int = 0) -> Cost:
    """The first output's elements, each a sum over `depth`, and `extra` more operations for each."""
    return streamed(signature, "matmul", elements(signature.outputs[:1]) * (2 * depth + extra))


@register(*onnx("MatMul MatMulInteger QLinearMatMul"), *microsoft("MatMulInteger16 MatMulBnb4"))
def product(signature: Signature) -> Cost:
    """(..., M, K) x (..., K, N). Zero points and scales belong to the multiply-add."""
    return _product(signature, signature.inputs[0].shape[-1])


@register("onnx.Gemm", attributes=("transA",))
def gemm(signature: Signature) -> Cost:
    """A third tensor is the bias."""
    return _product(signature, _depth(signature, "transA"), int(len(signature.inputs) > 2))


def _depth(signature: Signature, transposed: str) -> int:
    """The contracted length of the left operand."""
    return signature.inputs[0].shape[-2 if signature.attribute(transposed) else -1]


@register(*microsoft("FusedMatMul TransposeMatMul GemmFloat8"), attributes=("transA", "transBatchA"))
def fused_product(signature: Signature) -> Cost:
    """A product of operands that may be stored transposed, A's rows even as its first dimension."""
    if signature.attribute("transA") and signature.attribute("transBatchA"):
        return _product(signature, signature.inputs[0].shape[0])
    return _product(signature, _depth(signature, "transA"))


@register("com.microsoft.FusedMatMulActivation", attributes=("transA",))
def product_activation(signature: Signature) -> Cost:
    """The product, then a function of each output element."""
    return _product(signature, _depth(signature, "transA"), 1)


@register("com.microsoft.FusedGemm", attributes=("transA",))
def gemm_activation(signature: Signature) -> Cost:
    """The product, perhaps a bias, then a function of each output element."""
    return _product(signature, _depth(signature, "transA"), 1 + int(len(signature.inputs) > 2))


@register("com.microsoft.GemmFastGelu")
def gemm_gelu(signature: Signature) -> Cost:
    """X x W, perhaps a bias, GELU."""
    return _product(signature, signature.inputs[0].shape[-1], 1 + int(len(signature.inputs) > 2))


@register("com.microsoft.QGemm", attributes=("transA", "given"))
def quantized_gemm(signature: Signature) -> Cost:
    """A and B with scales and zero points, perhaps a bias C."""
    return _product(signature, _depth(signature, "transA"), int("C" in signature.attribute("given", ())))


@register(*microsoft("DynamicQuantizeMatMul MatMulIntegerToFloat"), attributes=("given",))
def product_to_float(signature: Signature) -> Cost:
    """Integer products scaled to floats, perhaps a bias."""
    return _product(signature, signature.inputs[0].shape[-1], int("bias" in signature.attribute("given", ())))


@register("com.microsoft.MatMulNBits", attributes=("K", "given"))
def packed_product(signature: Signature) -> Cost:
    """B is packed to a few bits per element, K x N of them."""
    depth = signature.attribute("K") or signature.inputs[0].shape[-1]
    return _product(signature, depth, int("bias" in signature.attribute("given", ())))


@register("onnx.Einsum", attributes=("equation",))
def einsum(signature: Signature) -> Cost:
    """Every combination of all indices multiplies its operands once, and adds up where an index is summed.

    Two operands with a summed index are a matrix product: 2 per combination. One operand is a sum, or moved.
    """
    sizes = _sizes(signature.attribute("equation", ""), signature.inputs)
    if sizes is None:
        return unknown(signature, "an equation that doesn't fit its operands")
    combinations, outputs = prod(sizes.values()), elements(signature.outputs)
    operands, summed = len(signature.inputs), prod(sizes.values()) > elements(signature.outputs)
    if operands == 1:
        category, flops = ("reduction", combinations) if summed else ("movement", 0)
        return streamed(signature, category, flops)
    if not summed:
        return streamed(signature, "elementwise", (operands - 1) * outputs)
    return streamed(signature, "matmul", operands * combinations)


def _sizes(equation: str, inputs: tuple[TensorSpec, ...]) -> dict[str, int] | None:
    """The size of each index; "..." stands for as many as are left, counted from the right."""
    terms = equation.replace(" ", "").split("->")[0].split(",")
    if len(terms) != len(inputs):
        return None
    sizes: dict[str, int] = {}
    for term, tensor in zip(terms, inputs, strict=True):
        head, dots, tail = term.partition("...")
        rest = len(tensor.shape) - len(head) - len(tail)
        if rest < 0 or (rest and not dots):
            return None
        names = [*head, *(f"...{i}" for i in range(rest, 0, -1)), *tail]
        for name, size in zip(names, tensor.shape, strict=True):
            sizes[name] = max(sizes.get(name, 1), size)
    return sizes


@register("onnx.AffineGrid")
def affine_grid(signature: Signature) -> Cost:
    """Each grid point is its homogeneous coordinates times theta (N, d, d+1)."""
    return streamed(signature, "matmul", 2 * elements(signature.outputs) * signature.inputs[0].shape[-1])
