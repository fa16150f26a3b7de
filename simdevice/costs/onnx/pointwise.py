"""Elementwise operators: 1 FLOP per output element, whatever the function; what is fused counts by its parts."""

from __future__ import annotations

from functools import partial

from simdevice.costs.arithmetic import elementwise, free
from simdevice.costs.arithmetic.basics import read_partly, rows_of
from simdevice.costs.onnx._common import microsoft, ml, named, onnx, places
from simdevice.costs.registry import register
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
    BifurcationDetector ComplexMul ComplexMulConj FastGelu Gelu IsAllFinite QuickGelu
""")

QUANTISED = (
    *onnx("DequantizeLinear QuantizeLinear"),
    *microsoft("DequantizeLinear QuantizeLinear"),
    *microsoft("QLinearAdd QLinearConcat QLinearLeakyRelu QLinearMul QLinearSigmoid QLinearWhere"),
)
"""Scale, shift and round are one function of each element; requantising belongs to the function."""

register(*ARITHMETIC, *FUNCTIONS, *ACTIVATIONS, *RANDOM, *CONTRIB, *QUANTISED, *ml("Binarizer Imputer"))(elementwise)


@register("onnx.DynamicQuantizeLinear")
def dynamic(signature: Signature) -> Cost:
    """Finds the range (1 per input element), then quantises."""
    return elementwise(signature, outputs=1, more=signature.inputs[0].numel)


@register(*onnx("Max Mean Min Sum"))
def variadic(signature: Signature) -> Cost:
    """n operands are n - 1 combinations per output element; one operand is passed on."""
    return elementwise(signature, max(len(signature.inputs) - 1, 1))


TWO_STEPS = ("onnx.SwiGLU", *microsoft("BiasAdd BiasGelu BiasSplitGelu"), *ml("Scaler"))
"""An activation and a product with its gate, two sums, a sum and an activation, or (x - offset) * scale."""

register(*TWO_STEPS)(partial(elementwise, per_element=2))


@register("onnx.RotaryEmbedding", "com.microsoft.RotaryEmbedding", attributes=("given", "num_heads"))
def rotary(signature: Signature) -> Cost:
    """x * cos + rotated x * sin: two products and a sum for each element that is turned; a head's elements beyond twice
    the tables' width pass through. With positions, each picks a row of both tables; without, tables are read whole."""
    tensors, stands = named(signature), places(signature)
    source, table = signature.inputs[0], tensors["cos_cache"]
    width, heads = 2 * table.shape[-1], signature.attribute("num_heads")
    if len(source.shape) == 4:
        head = source.shape[-1]
    else:
        head = source.shape[-1] // heads if heads else width
    turned = source.numel // max(head, 1) * min(width, head)
    whole = elementwise(signature, 0, more=3 * turned)
    if "position_ids" not in stands:
        return whole
    picked = source.shape[0] * source.shape[2 if len(source.shape) == 4 else 1]
    rows = {stands[name]: rows_of(tensors[name], picked) for name in ("cos_cache", "sin_cache")}
    return read_partly(signature, whole, rows)


@register("onnx.Dropout", attributes=("training_mode",))
def dropout(signature: Signature) -> Cost:
    """Inference passes its input on; training scales and masks."""
    if not signature.attribute("training_mode"):
        return free(signature)
    return elementwise(signature)


@register("com.microsoft.BiasDropout")
def bias_dropout(signature: Signature) -> Cost:
    """A sum with the bias, and one with the residual where there is one."""
    return elementwise(signature, 2, outputs=1)
