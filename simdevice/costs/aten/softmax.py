"""Softmax and its relatives: 5 FLOPs per input element (maximum, subtract, exponential, sum, divide)."""

from __future__ import annotations

from simdevice.costs.arithmetic import softmax
from simdevice.costs.aten._common import aten
from simdevice.costs.registry import register

__all__: list[str] = []

FORWARD = aten("_log_softmax _masked_softmax _safe_softmax _softmax log_softmax softmax special_softmax")

BACKWARD = aten("_log_softmax_backward_data _masked_softmax_backward _softmax_backward_data")

register(*FORWARD, *BACKWARD)(softmax)
