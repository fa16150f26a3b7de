"""ONNX Runtime's mixtures of experts (ContribOperators.md, MoE and QMoE): where each expert's matrices lie."""

from __future__ import annotations

from simdevice.costs.arithmetic.experts import Layer, mixture
from simdevice.costs.onnx._common import named, places
from simdevice.costs.registry import register
from simdevice.records import Cost, Signature
from simdevice.records.dtypes import bits

__all__: list[str] = []

_FOUR_BITS = ("fp4", "nvfp4", "wfp4afp8")
"""Quantisations whose bytes hold two values each."""

_GATED = ("swiglu", "geglu")
"""Activations of one half that scale the other."""


def _stored_bits(signature: Signature, layer: str) -> int:
    """Bits per element of a matrix: of its type, or of what its bytes are packed with."""
    matrix = named(signature)[f"{layer}_experts_weights"]
    if not signature.name.endswith("QMoE") or matrix.dtype not in ("int8", "uint8"):
        return bits(matrix.dtype)
    if signature.attribute("quant_type") in _FOUR_BITS:
        return 4
    return int(signature.attribute(f"{layer}_expert_weight_bits") or signature.attribute("expert_weight_bits") or 4)


def _layer(signature: Signature, layer: str, hidden: int) -> Layer:
    """fc2 goes back to `hidden` columns, the others come from as many; the rest of a matrix's elements is its other
    side, however it is laid out."""
    stands, matrix = places(signature), named(signature)[f"{layer}_experts_weights"]
    stored = _stored_bits(signature, layer)
    other = 8 * matrix.nbytes // (stored * max(matrix.shape[0] * hidden, 1))
    k, n = (other, hidden) if layer == "fc2" else (hidden, other)
    beside = tuple(
        i for name, i in stands.items() if name.startswith(f"{layer}_") and i != stands[f"{layer}_experts_weights"]
    )
    beside = tuple(i for i in beside if signature.inputs[i].shape[:1] == matrix.shape[:1])
    biased = f"{layer}_experts_bias" in stands
    return Layer(stands[f"{layer}_experts_weights"], k, n, stored, beside, biased, is_last=layer == "fc2")


@register(
    *("com.microsoft.MoE", "com.microsoft.QMoE"),
    attributes=(
        *("given", "k", "activation_type", "quant_type"),
        *("expert_weight_bits", "fc1_expert_weight_bits", "fc2_expert_weight_bits", "fc3_expert_weight_bits"),
    ),
)
def experts(signature: Signature) -> Cost:
    """input (..., hidden), router_probs (rows, experts), then fc1, fc2 and perhaps fc3 of every expert: fc2 of the
    activation of fc1, times fc3 where there is one. A gate in fc1 (swiglu, geglu) is half of its columns."""
    source, probabilities = signature.inputs[:2]
    hidden, count = source.shape[-1], probabilities.shape[-1]
    names = [name for name in ("fc1", "fc3", "fc2") if f"{name}_experts_weights" in places(signature)]
    layers = [_layer(signature, name, hidden) for name in names]
    width = layers[-1].k
    gated = len(layers) > 2 or signature.attribute("activation_type") in _GATED
    rows = source.numel // max(hidden, 1)
    return mixture(signature, rows, signature.attribute("k") or 1, count, layers, activations=(1 + gated) * width)
