"""Read an operator's schema once: which arguments are tensors read, which are written, and which
attributes its cost rule declares. Shared by every front end that sees ATen calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from simdevice.costs import Costs
from simdevice.frontends.memo import is_pure
from simdevice.records import TensorSpec

__all__ = ["CallPlan", "canonical_name", "dtype_name", "plain", "plan_call", "spec_of"]

_QUERIES = ("aten._fused_sdp_choice", "prim.", "profiler.")
_DTYPE_NAMES: dict[torch.dtype, str] = {}


@dataclass(frozen=True, slots=True)
class CallPlan:
    """Slots are (position, argument name); an argument beyond the positional ones is looked up by name.

    `reads`: tensor arguments that are read, in schema order. `mutates`: tensor arguments that are
    written and not also returned. `attributes`: slots with the schema's default. `route` is empty
    for an operator; "query" asks about a tensor or marks a place for a profiler and does no work;
    "composite" is made of other operators only; "control" runs functions it is given. `is_pure`: see MetaMemo.
    """

    name: str
    reads: tuple[tuple[int, str], ...]
    mutates: tuple[tuple[int, str], ...]
    attributes: tuple[tuple[int, str, Any], ...]
    route: str = ""
    is_pure: bool = False


def canonical_name(func: Any) -> str:
    """`aten.mm` for the overload `aten.mm.default`; an in-place form keeps its underscore."""
    name: str = func._schema.name
    return name.replace("::", ".")


def plan_call(func: Any, costs: Costs) -> CallPlan:
    """The plan of one `OpOverload` or higher-order operator.

    Arguments that are only written are no inputs: `out=`, and the destination of `copy_`.
    """
    if isinstance(func, torch._ops.HigherOrderOperator):
        return CallPlan(f"higher_order.{func}", (), (), (), "control")
    schema, name = func._schema, canonical_name(func)
    declared = costs.attributes(name)
    returned: set[str] = set()
    for result in schema.returns:
        if result.alias_info is not None and result.alias_info.is_write:
            returned |= result.alias_info.before_set
    reads, mutates, attributes = [], [], []
    for position, argument in enumerate(schema.arguments):
        slot = (position, argument.name)
        if "Tensor" in str(argument.type):
            written = argument.alias_info is not None and argument.alias_info.is_write
            only_written = argument.is_out or (name == "aten.copy_" and position == 0)
            if not only_written:
                reads.append(slot)
            if written and not (argument.alias_info.before_set & returned):
                mutates.append(slot)
        if argument.name in declared:
            default = argument.default_value if argument.has_default_value() else None
            attributes.append((*slot, default))
    attributes.sort(key=lambda item: declared.index(item[1]))
    return CallPlan(name, tuple(reads), tuple(mutates), tuple(attributes), _route(func, name), is_pure(func))


def _route(func: Any, name: str) -> str:
    if name.startswith(_QUERIES):
        return "query"
    # Without a kernel of its own anywhere but in this key, it is only ever its parts.
    implicit = torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd")
    return "composite" if implicit and not torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CPU") else ""


def plain(value: Any) -> Any:
    """An argument as plain, hashable data: lists are tuples, types and devices their names.

    A tensor is True: a rule that declares an optional tensor asks whether it was given.
    """
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return tuple(plain(v) for v in value)
    if isinstance(value, torch.dtype):
        return dtype_name(value)
    if isinstance(value, torch.Tensor):
        return True
    return str(value)


def dtype_name(dtype: torch.dtype) -> str:
    """`torch.bfloat16` as "bfloat16"."""
    name = _DTYPE_NAMES.get(dtype)
    if name is None:
        name = _DTYPE_NAMES[dtype] = str(dtype).removeprefix("torch.")
    return name


def spec_of(shape: Any, dtype: torch.dtype, is_weight: bool) -> TensorSpec:
    """A tensor as a signature knows it."""
    return TensorSpec(tuple(int(n) for n in shape), dtype_name(dtype), is_weight)
