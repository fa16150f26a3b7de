"""What one operator call is: tensors in, tensors out, and what its cost rule said."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from simdevice.records.dtypes import nbytes, numel
from simdevice.records.work import Extra, Product

__all__ = ["CATEGORIES", "FREE_CATEGORIES", "PHASES", "Cost", "Op", "Signature", "TensorRef", "TensorSpec"]

PHASES = ("forward", "backward", "optimizer")

CATEGORIES = (
    "matmul",
    "convolution",
    "attention",
    "elementwise",
    "reduction",
    "pooling",
    "softmax",
    "norm",
    "sort",
    "fft",
    "linalg",
    "gather",
    "movement",
    "creation",
    "view",
    "transfer",
    "sync",
    "unknown",
)
"""Every category a cost rule may give. `transfer` crosses the host link; `sync` rows order time and
do no work; `unknown` is an operator without a rule."""

FREE_CATEGORIES = frozenset({"view", "sync"})
"""Categories that occupy no device time."""


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """A tensor as a signature knows it: what the cost depends on, not which tensor it is."""

    shape: tuple[int, ...]
    dtype: str
    is_weight: bool = False

    @property
    def numel(self) -> int:
        return numel(self.shape)

    @property
    def nbytes(self) -> int:
        return nbytes(self.shape, self.dtype)


@dataclass(frozen=True, slots=True)
class TensorRef(TensorSpec):
    """A tensor of a trace; `id` is a serial number per storage, so views share it (-1: untracked)."""

    id: int = -1


@dataclass(frozen=True, slots=True)
class Signature:
    """All that a cost rule may look at. Equal signatures are costed and lowered once and shared.

    `name` is canonical (`aten.mm`, `onnx.MatMul`, `simacc.copy_to_host`), without an overload.
    `attributes` holds only what the operator's rule declares.
    """

    name: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    attributes: tuple[tuple[str, Any], ...] = ()

    def attribute(self, name: str, default: Any = None) -> Any:
        """The declared attribute's value, or `default` where the call did not carry it."""
        for key, value in self.attributes:
            if key == name:
                return value
        return default

    @property
    def arity(self) -> int:
        """Tensors of one call: inputs, then outputs."""
        return len(self.inputs) + len(self.outputs)


@dataclass(frozen=True, slots=True)
class Cost:
    """What an operator needs. `flops` is None where no rule knows: totals become lower bounds.

    `weight_bytes` is the part of `bytes_read` that belongs to parameters. `reason` says why an
    operator is unknown, or why a known one is only an estimate.

    The work: `products` in order, and `extras`, which are all FLOPs beside them. An operator without products is a
    pass over its bytes, whose operations on the vector lanes are `lane_ops` (None: its FLOPs, at least one per
    output element); `in_flight_ops` of them a machine may do on the data on their way in instead.
    """

    category: str
    flops: int | None
    bytes_read: int
    bytes_written: int
    weight_bytes: int = 0
    reason: str | None = None
    products: tuple[Product, ...] = ()
    extras: tuple[Extra, ...] = ()
    lane_ops: int | None = None
    in_flight_ops: int = 0

    @property
    def bytes(self) -> int:
        return self.bytes_read + self.bytes_written


@dataclass(frozen=True, slots=True)
class Op:
    """One operator call of a trace, assembled on demand from the trace's columns."""

    index: int
    signature: Signature
    inputs: tuple[TensorRef, ...]
    outputs: tuple[TensorRef, ...]
    phase: str
    scope: str
    cost: Cost
    device_index: int = 0

    @property
    def name(self) -> str:
        return self.signature.name

    @property
    def category(self) -> str:
        return self.cost.category

    @property
    def flops(self) -> int | None:
        return self.cost.flops

    @property
    def bytes(self) -> int:
        return self.cost.bytes
