"""Elementwise operators: 1 FLOP per output element, whatever the function."""

from __future__ import annotations

from simdevice.costs.arithmetic import elementwise
from simdevice.costs.aten._common import aten
from simdevice.costs.registry import register, streamed
from simdevice.records import Cost, Signature

__all__: list[str] = []

ARITHMETIC = aten("""
    __lshift__ __rshift__ _add_relu _conj_physical add addcdiv addcmul atan2 bitwise_and bitwise_left_shift bitwise_not
    bitwise_or bitwise_right_shift bitwise_xor ceil clamp clamp_max clamp_min complex conj_physical copysign deg2rad div
    eq floor floor_divide fmax fmin fmod frac frexp gcd ge greater gt heaviside hypot isfinite isinf isnan isneginf
    isposinf lcm ldexp le lerp less linalg_cross logical_and logical_not logical_or logical_xor lt masked_fill maximum
    minimum mul nan_to_num ne neg nextafter polar positive rad2deg reciprocal remainder round rsub sgn sign signbit
    square sub true_divide trunc where abs angle
""")

FUNCTIONS = aten("""
    acos acosh asin asinh atan atanh cos cosh digamma erf erfc erfinv exp exp2 expm1 i0 igamma igammac lgamma log log10
    log1p log2 logaddexp logaddexp2 logit mvlgamma polygamma pow rsqrt sigmoid sin sinc sinh special_airy_ai
    special_bessel_j0 special_bessel_j1 special_bessel_y0 special_bessel_y1 special_chebyshev_polynomial_t
    special_chebyshev_polynomial_u special_chebyshev_polynomial_v special_chebyshev_polynomial_w special_entr
    special_erfcx special_hermite_polynomial_h special_hermite_polynomial_he special_i0e special_i1 special_i1e
    special_laguerre_polynomial_l special_legendre_polynomial_p special_log_ndtr special_modified_bessel_i0
    special_modified_bessel_i1 special_modified_bessel_k0 special_modified_bessel_k1 special_ndtri
    special_scaled_modified_bessel_k0 special_scaled_modified_bessel_k1 special_shifted_chebyshev_polynomial_t
    special_shifted_chebyshev_polynomial_u special_shifted_chebyshev_polynomial_v
    special_shifted_chebyshev_polynomial_w special_spherical_bessel_j0 special_xlog1py special_zeta sqrt tan tanh xlogy
""")

ACTIVATIONS = aten("""
    _prelu_kernel celu elu gelu glu glu_jvp hardshrink hardsigmoid hardswish hardtanh leaky_relu log_sigmoid
    log_sigmoid_forward mish prelu relu relu6 rrelu_with_noise rrelu_with_noise_functional selu silu softplus softshrink
    threshold
""")

BACKWARD = aten("""
    _prelu_kernel_backward elu_backward gelu_backward glu_backward glu_backward_jvp hardshrink_backward
    hardsigmoid_backward hardswish_backward hardtanh_backward leaky_relu_backward log_sigmoid_backward logit_backward
    mish_backward native_dropout_backward rrelu_with_noise_backward sigmoid_backward silu_backward softplus_backward
    softshrink_backward tanh_backward threshold_backward
""")

DROPOUT = aten("_fused_dropout _masked_scale dropout native_dropout")

SAMPLED = aten("""
    _dirichlet_grad _sample_dirichlet _standard_gamma _standard_gamma_grad bernoulli binomial poisson
""")

QUANTISED = aten("""
    _fake_quantize_learnable_per_channel_affine _fake_quantize_learnable_per_channel_affine_backward
    _fake_quantize_learnable_per_tensor_affine _fake_quantize_learnable_per_tensor_affine_backward
    _fake_quantize_per_tensor_affine_cachemask_tensor_qparams dequantize fake_quantize_per_channel_affine
    fake_quantize_per_channel_affine_cachemask fake_quantize_per_channel_affine_cachemask_backward
    fake_quantize_per_tensor_affine fake_quantize_per_tensor_affine_cachemask
    fake_quantize_per_tensor_affine_cachemask_backward quantize_per_channel quantize_per_tensor
""")

FOREACH = aten("""
    _foreach_abs _foreach_acos _foreach_add _foreach_addcdiv _foreach_addcmul _foreach_asin _foreach_atan _foreach_ceil
    _foreach_clamp_max _foreach_clamp_min _foreach_cos _foreach_cosh _foreach_div _foreach_erf _foreach_erfc
    _foreach_exp _foreach_expm1 _foreach_floor _foreach_frac _foreach_lerp _foreach_lgamma _foreach_log _foreach_log10
    _foreach_log1p _foreach_log2 _foreach_maximum _foreach_minimum _foreach_mul _foreach_neg _foreach_pow
    _foreach_reciprocal _foreach_round _foreach_rsqrt _foreach_sigmoid _foreach_sign _foreach_sin _foreach_sinh
    _foreach_sqrt _foreach_sub _foreach_tan _foreach_tanh _foreach_trunc
""")

IN_PLACE_SHIFTS = aten("__ilshift__ __irshift__")
"""In-place forms whose names no trailing underscore tells."""

register(
    *ARITHMETIC,
    *FUNCTIONS,
    *ACTIVATIONS,
    *BACKWARD,
    *DROPOUT,
    *SAMPLED,
    *QUANTISED,
    *FOREACH,
    *IN_PLACE_SHIFTS,
)(elementwise)


LOSSES = aten("""
    binary_cross_entropy binary_cross_entropy_with_logits huber_loss l1_loss mse_loss multi_margin_loss
    multilabel_margin_loss_forward smooth_l1_loss soft_margin_loss
""")


@register(*LOSSES, attributes=("reduction",))
def loss(signature: Signature) -> Cost:
    """1 per element of the prediction: a reduction, or an elementwise operator under reduction="none" (0)."""
    category = "elementwise" if signature.attribute("reduction", 1) == 0 else "reduction"
    return streamed(signature, category, signature.inputs[0].numel)


LOSSES_BACKWARD = aten("""
    binary_cross_entropy_backward huber_loss_backward mse_loss_backward multi_margin_loss_backward
    multilabel_margin_loss_backward smooth_l1_loss_backward soft_margin_loss_backward
""")


@register(*LOSSES_BACKWARD)
def loss_backward(signature: Signature) -> Cost:
    """1 per element of the gradient."""
    return elementwise(signature, outputs=1)


@register("aten.quantize_per_tensor_dynamic")
def quantize_dynamic(signature: Signature) -> Cost:
    """Finds the range (1 per input element), then quantises (1 per output element)."""
    return elementwise(signature, more=signature.inputs[0].numel)


@register(*aten("_fused_moving_avg_obs_fq_helper _fused_moving_avg_obs_fq_helper_functional"))
def observe_and_fake_quantize(signature: Signature) -> Cost:
    """Finds the range (1 per input element), then quantises into output and mask."""
    return elementwise(signature, outputs=2, more=signature.inputs[0].numel)
