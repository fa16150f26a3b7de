"""What a machine is: frozen, validated descriptions with exact quantities. Reads no files, takes no time."""

from __future__ import annotations

import math
from fractions import Fraction
from numbers import Integral
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, InstanceOf, PlainValidator, StrictBool, ValidationError

from simdevice.errors import SpecError, nearest
from simdevice.units import parse_quantity

__all__ = [
    "AcceleratorSpec",
    "DeviceSpec",
    "Exact",
    "FieldError",
    "HostSpec",
    "LinkSpec",
    "NullSpec",
    "OffloadSpec",
    "RooflineSpec",
    "Spec",
]

Exact = int | Fraction
"""An exact number: an int where it is whole. Both have `numerator` and `denominator`."""


class FieldError(SpecError):
    """A SpecError about one field; `key` lets a loader add the file and line."""

    def __init__(self, key: str, message: str) -> None:
        self.key = key
        super().__init__(message)


def _read(value: object, unit: str) -> Exact:
    if isinstance(value, (Integral, float)) and not isinstance(value, bool):  # NumPy's numbers too, as a sweep gives
        value = int(value) if isinstance(value, Integral) else float(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"expected a finite number, got {value!r}")
    number = value if isinstance(value, Fraction) else parse_quantity(value, unit)  # type: ignore[arg-type]
    return int(number) if number.denominator == 1 else number


def _quantity(unit: str, *, whole: bool = False, zero: bool = False, at_most: int | None = None) -> PlainValidator:
    """A field read from "25.6 GB/s", a plain number or a Fraction; more than zero unless `zero` is allowed."""

    def check(value: object) -> Exact:
        number = _read(value, unit)
        if number < 0 or (number == 0 and not zero):
            raise ValueError(f"expected {'zero or more' if zero else 'more than zero'}, got {value!r}")
        if whole and not isinstance(number, int):
            raise ValueError(f"expected a whole number, got {value!r}")
        if at_most is not None and number > at_most:
            raise ValueError(f"expected at most {at_most}, got {value!r}")
        return number

    return PlainValidator(check)


Bytes = Annotated[int, _quantity("B", whole=True)]
BytesPerSecond = Annotated[Exact, _quantity("B/s")]
Count = Annotated[int, _quantity("", whole=True)]
FlopsPerSecond = Annotated[Exact, _quantity("FLOP/s")]
Hertz = Annotated[Exact, _quantity("Hz")]
OpsPerByte = Annotated[Exact, _quantity("OP/B", zero=True)]
Ratio = Annotated[Exact, _quantity("", at_most=1)]
Seconds = Annotated[Exact, _quantity("s", zero=True)]

S = TypeVar("S", bound="Spec")


class Spec(BaseModel):
    """Base of every description. Fields accept strings with units and are kept as exact numbers.

    Raises:
        SpecError: one line that names the field, what was expected and what came.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, Field(min_length=1)]

    def __init__(self, **fields: Any) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise _first_problem(error, type(self)) from None

    def replace(self: S, **overrides: object) -> S:
        """The same machine with some fields changed, validated again."""
        try:
            return type(self)(**{**dict(self), **overrides})
        except FieldError as error:
            raise FieldError(error.key, f"{self.name}: {error}") from None


def _first_problem(error: ValidationError, cls: type[Spec]) -> FieldError:
    problems = error.errors(include_url=False)
    # A misspelt field is unknown and its right name missing: the first says more.
    problem = next((p for p in problems if p["type"] == "extra_forbidden"), problems[0])
    key = str(problem["loc"][0])
    if problem["type"] == "extra_forbidden":
        return FieldError(key, f"unknown field {key!r}{nearest(key, cls.model_fields)}")
    if problem["type"] == "missing":
        return FieldError(key, f"field {key!r} is missing")
    context = problem.get("ctx", {}).get("error")
    said = str(context) if context is not None else f"{problem['msg'].lower()}, got {problem['input']!r}"
    return FieldError(key, f"{key}: {said}")


class LinkSpec(Spec):
    """A link between a host and a device: b bytes take latency + b / bandwidth, per direction."""

    bandwidth_bytes_per_s: BytesPerSecond
    latency_s: Seconds


class _Rated(Spec):
    peak_flops_per_s: FlopsPerSecond
    compute_efficiency: Ratio = 1
    dram_bandwidth_bytes_per_s: BytesPerSecond
    dram_efficiency: Ratio = 1
    launch_overhead_s: Seconds = 0

    @property
    def flops_per_s(self) -> Fraction:
        """What the machine reaches: peak x efficiency."""
        return Fraction(self.peak_flops_per_s) * self.compute_efficiency

    @property
    def dram_bytes_per_s(self) -> Fraction:
        """What its memory reaches: bandwidth x efficiency."""
        return Fraction(self.dram_bandwidth_bytes_per_s) * self.dram_efficiency


class HostSpec(_Rated):
    """The processor that runs what the device does not claim, as a roofline."""

    kind: Literal["host"] = "host"


class RooflineSpec(_Rated):
    """A device as two rates: an operator takes max(FLOPs / compute rate, bytes / memory rate).

    `link` names the link to its host (see `load_link`).
    """

    kind: Literal["roofline"] = "roofline"
    memory_capacity_bytes: Bytes
    link: str


class AcceleratorSpec(Spec):
    """A device of tiles: a MAC array and a vector unit behind one buffer, its DRAM channels and NoC.

    `dram_bandwidth_bytes_per_s` is of all channels together, `noc_bandwidth_bytes_per_s` per
    direction. A tile may use `tile_fraction` of the buffer. `transit_ops_per_byte` is what can be
    computed on data in flight (0: nothing). `quantise` counts time in whole clock cycles. `operands`:
    "all" loads everything an operator reads; "products" only the two operands of each product, not
    addends and biases, as the published machines do.
    """

    kind: Literal["accelerator"] = "accelerator"
    clock_hz: Hertz
    array_rows: Count
    array_cols: Count
    vector_lanes: Count
    buffer_bytes: Bytes
    tile_fraction: Ratio = Fraction(1, 2)
    dram_bandwidth_bytes_per_s: BytesPerSecond
    dram_channels: Count
    dram_latency_s: Seconds
    noc_bandwidth_bytes_per_s: BytesPerSecond
    noc_latency_s: Seconds
    transit_ops_per_byte: OpsPerByte = 0
    memory_capacity_bytes: Bytes
    quantise: StrictBool = False
    operands: Literal["all", "products"] = "all"
    launch_overhead_s: Seconds = 0
    link: str

    @property
    def peak_flops_per_s(self) -> Fraction:
        """Two per multiply-accumulate, one of those per array cell and cycle."""
        return 2 * self.array_rows * self.array_cols * Fraction(self.clock_hz)


class OffloadSpec(Spec):
    """An accelerator for the operators it claims (categories or names), a host for the rest, and the link between."""

    kind: Literal["offload"] = "offload"
    device: InstanceOf[RooflineSpec] | InstanceOf[AcceleratorSpec]
    claims: tuple[str, ...]
    host: InstanceOf[HostSpec]
    link: InstanceOf[LinkSpec]

    @property
    def memory_capacity_bytes(self) -> int:
        """The device's: the host's is not modelled."""
        return self.device.memory_capacity_bytes


class NullSpec(Spec):
    """A machine on which nothing takes time: for questions that need none, such as what an operator costs."""

    kind: Literal["null"] = "null"
    memory_capacity_bytes: None = None


DeviceSpec = RooflineSpec | AcceleratorSpec | OffloadSpec | NullSpec
"""What `load` gives: the machines that a Device can simulate."""
