"""Elementwise operators: 1 FLOP per output element, whatever the function; what is fused counts by its parts."""

from __future__ import annotations

from simdevice.costs.onnx._common import elements, microsoft, onnx
from simdevice.costs.registry import register, streamed
from simdevice.records import Cost, Signature

__all__: list[str] = []

ARITHMETIC = onnx("""
    Abs Add And BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Ceil Clip Div Equal Floor Greater GreaterOrEqual
    IsInf IsNaN Less LessOrEqual Mod Mul Neg Not Or Pow Reciprocal Round Sign Sqrt Sub Where Xor
""")

FUNCTIONS = onnx("Acos Acosh Asin Asinh Atan Atanh Cos Cosh Erf Exp Log Sin Sinh Tan Tanh")

ACTIVATIONS = onnx("""
    Celu Elu Gelu HardSigmoid HardSwish LeakyRelu Mish PRelu Relu Selu Shrink Sigmoid Softplus Softsign Swish
    ThresholdedRelu
""")

RANDOM = onnx("Bernoulli")

CONTRIB = microsoft("""
    BifurcationDetector ComplexMul ComplexMulConj FastGelu Gelu IsAllFinite QuickGelu Rsqrt Trilu
""")


@register(*ARITHMETIC, *FUNCTIONS, *ACTIVATIONS, *RANDOM, *CONTRIB)
def pointwise(signature: Signature) -> Cost:
    """Every element of every output."""
    return streamed(signature, "elementwise", elements(signature.outputs))


@register(*onnx("Max Mean Min Sum"))
def variadic(signature: Signature) -> Cost:
    """n operands are n - 1 combinations per output element; one operand is passed on."""
    return streamed(signature, "elementwise", max(len(signature.inputs) - 1, 1) * elements(signature.outputs))


@register("onnx.SwiGLU", *microsoft("BiasAdd BiasGelu BiasSplitGelu S2SModelSplitQuickGelu"))
def two_steps(signature: Signature) -> Cost:
    """An activation and a product with its gate, or two sums, or a sum and an activation."""
    return streamed(signature, "elementwise", 2 * elements(signature.outputs))


@register("onnx.RotaryEmbedding", "com.microsoft.RotaryEmbedding")
def rotary_embedding(signature: Signature) -> Cost:
    """x * cos + rotated x * sin: two products and a sum per element."""
    return streamed(signature, "elementwise", 3 * elements(signature.outputs))


@register("onnx.Dropout", attributes=("training_mode",))
def dropout(signature: Signature) -> Cost:
    """Inference passes its input on; training scales and masks."""
    if not signature.attribute("training_mode"):
        return Cost("view", 0, bytes_read=0, bytes_written=0)
    return streamed(signature, "elementwise", elements(signature.outputs))


@register("com.microsoft.BiasDropout")
def bias_dropout(signature: Signature) -> Cost:
    """A sum with the bias, and one with the residual where there is one."""
    return streamed(signature, "elementwise", 2 * elements(signature.outputs[:1]))
