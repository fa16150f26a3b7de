"""Fused optimizer steps: the FLOPs of the elementwise steps that they fuse, in one pass over memory.

The foreach forms (`_foreach_add_`, ...) are elementwise operators and live in `pointwise`.
"""

from __future__ import annotations

from simdevice.costs.arithmetic import elements, optimizer_step
from simdevice.costs.aten._common import aten
from simdevice.costs.registry import register
from simdevice.records import Cost, Signature

__all__: list[str] = []


def _step(signature: Signature, lists: int, flops_per_parameter: int) -> Cost:
    """Outputs are `lists` lists of as many tensors: parameters, gradients, then state.

    Gradients are named as outputs because a gradient scaler may be folded in; they count as read only.
    """
    count = len(signature.outputs) // lists
    parameters = elements(signature.outputs[:count])
    written = (*signature.outputs[:count], *signature.outputs[2 * count :])
    return optimizer_step(signature, flops_per_parameter, parameters, written)


@register(*aten("_fused_adam _fused_adamw"), attributes=("weight_decay", "amsgrad", "maximize"))
def adam(signature: Signature) -> Cost:
    """First moment (1: lerp); second (2: multiply, addcmul); denominator (3: square root, bias correction,
    epsilon); step (1: addcdiv). One more each for weight decay, the AMSGrad maximum and maximisation."""
    amsgrad = bool(signature.attribute("amsgrad", False))
    decay = signature.attribute("weight_decay", 0) != 0
    flops = 7 + decay + amsgrad + bool(signature.attribute("maximize", False))
    functional = len(signature.outputs) % (4 + amsgrad) != 0  # the out-of-place form returns the step counts too
    return _step(signature, 4 + amsgrad + functional, flops)


@register(
    "aten._fused_sgd",
    attributes=("weight_decay", "momentum", "nesterov", "maximize", "is_first_step"),
)
def sgd(signature: Signature) -> Cost:
    """Step (1). Weight decay, maximisation and the Nesterov look-ahead 1 each; momentum 2 (0 in the first step,
    which copies the gradient)."""
    momentum = signature.attribute("momentum", 0) != 0
    flops = 1 + (signature.attribute("weight_decay", 0) != 0) + bool(signature.attribute("maximize", False))
    if momentum:
        flops += (0 if signature.attribute("is_first_step", False) else 2) + bool(
            signature.attribute("nesterov", False)
        )
    return _step(signature, 2 + momentum, flops)


@register("aten._fused_adagrad", attributes=("weight_decay", "maximize"))
def adagrad(signature: Signature) -> Cost:
    """Sum of squares (1: addcmul), denominator (2: square root, epsilon), step (2: scale, addcdiv). Decay and
    maximisation 1 each."""
    flops = 5 + (signature.attribute("weight_decay", 0) != 0) + bool(signature.attribute("maximize", False))
    return _step(signature, 4 if len(signature.outputs) % 4 == 0 else 3, flops)
