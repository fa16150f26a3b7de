"""Operators that make values from nothing: 0 FLOPs, and only the output is written."""

from __future__ import annotations

from simdevice.costs.arithmetic import creation, elementwise
from simdevice.costs.aten._common import aten
from simdevice.costs.registry import register
from simdevice.records import Cost, Signature

__all__: list[str] = []

CONSTANTS = aten("""
    _foreach_zero _new_zeros_with_same_feature_meta arange eye fill full full_like linspace logspace new_full new_ones
    new_zeros ones ones_like range scalar_tensor tril_indices triu_indices zero zeros zeros_like
""")

WINDOWS = aten("bartlett_window blackman_window fft_fftfreq fft_rfftfreq hamming_window hann_window kaiser_window")

RANDOM = aten("""
    _fill_mem_eff_dropout_mask _philox_key_fold_in _philox_key_split _philox_normal _philox_uniform bernoulli_ cauchy
    exponential geometric log_normal normal_ normal_functional rand
    rand_like randint randint_like randn randn_like random randperm uniform
""")
"""In-place draws overwrite their tensor. (`bernoulli_(p=tensor)` reads p too; it is not told apart here.)"""


STATE = aten("_cudnn_init_dropout_state")

register(*CONSTANTS, *WINDOWS, *RANDOM, *STATE)(creation)


@register("aten.normal")
def normal(signature: Signature) -> Cost:
    """With tensors of means or deviations it is elementwise; without, a creation."""
    if signature.inputs:
        return elementwise(signature)
    return creation(signature)
