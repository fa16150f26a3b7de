"""A trace of a list of operators: each is one row, costed by the rule of its name and checked by its own library."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from simdevice.costs import Costs, registered
from simdevice.errors import CaptureError, SpecError, UnknownNameError, nearest
from simdevice.frontends.base import Workload
from simdevice.frontends.describe import one_line, title, with_path
from simdevice.frontends.emitter import Emitter, Known
from simdevice.frontends.operator_list import Operator, OperatorList, Tensor, read
from simdevice.frontends.versions import versions
from simdevice.records import Origin, TensorSpec, Trace
from simdevice.records.dtypes import BITS

__all__ = ["trace"]

_REFUSED = (AttributeError, IndexError, KeyError, TypeError, ValueError, ZeroDivisionError)
"""What a cost rule raises on tensors that its operator doesn't take."""

Attributes = tuple[tuple[str, Any], ...]


def trace(
    workload: Workload, costs: Costs, *, fake: str | None = None, scopes: bool = True, flop_counter: bool = False
) -> Trace:
    """Take the operators of an OperatorList as they stand. FlopCounterMode counts nothing: no program runs.

    Raises:
        SpecError: an operator whose tensors or attributes its library doesn't take; says which by its position.
    """
    started = time.perf_counter()
    program = workload.program
    if not isinstance(program, OperatorList):
        raise CaptureError("the 'operators' front end takes lists of operators only")
    emitter = Emitter(costs)
    named: dict[str, Known] = {}
    for position, operator in enumerate(read(program)):
        where = f"operator {position} ({operator.name})"
        try:
            _take(operator, where, emitter, named, scopes=scopes)
        except UnknownNameError as error:
            raise SpecError(f"{where}: {error}") from error
    origin = Origin("operators", "", title(workload), "", versions(), notes=tuple(emitter.notes))
    done = with_path(emitter.finish(origin), workload.path)
    return replace(done, origin=replace(done.origin, capture_s=time.perf_counter() - started))


def _take(operator: Operator, where: str, emitter: Emitter, named: dict[str, Known], *, scopes: bool) -> None:
    inputs = [_tensor(t, where, emitter, named) for t in operator.inputs]
    outputs = [_tensor(t, where, emitter, named) for t in operator.outputs]
    scope = operator.scope if scopes else ""
    domain = operator.name.partition(".")[0]
    name, reason = operator.name, ""
    attributes: Attributes = ()
    if domain == "aten":
        name, attributes, reason = _aten(operator, inputs, outputs, where, emitter)
    elif domain in ("onnx", "com"):
        attributes = _onnx(operator, inputs, outputs, where, emitter)
    else:
        declared = emitter.costs.attributes(name)
        _check_names(operator, declared, where)
        attributes = tuple((key, _plain(operator.attributes.get(key))) for key in declared)
    if not reason and emitter.costs.rule(name) is None:
        reason = f"no cost rule{_near(name)}"
    if reason:
        emitter.unresolved(name, inputs, outputs, reason, scope=scope)
        return
    try:
        is_free = emitter.is_free(name, inputs, outputs, attributes)
    except _REFUSED as error:
        raise SpecError(f"{where}: its cost rule doesn't take these tensors: {one_line(error)}") from error
    if is_free and inputs:  # a result that is its input, looked at otherwise
        outputs = [Known(replace(t.spec, is_weight=inputs[0].spec.is_weight), inputs[0].storage) for t in outputs]
        for tensor, known in zip(operator.outputs, outputs, strict=True):
            if isinstance(tensor, Tensor) and tensor.name is not None:
                named[tensor.name] = known
    emitter.call(name, inputs, outputs, attributes, scope=scope)


def _tensor(tensor: Tensor | str, where: str, emitter: Emitter, named: dict[str, Known]) -> Known:
    if isinstance(tensor, str):
        if tensor not in named:
            raise UnknownNameError("tensor", tensor, named)
        return named[tensor]
    if tensor.dtype not in BITS:
        raise UnknownNameError("dtype", tensor.dtype, BITS)
    if tensor.name in named:
        raise SpecError(f"{where}: tensor {tensor.name!r} is described already: refer to it by its name alone")
    known = Known(TensorSpec(tuple(tensor.shape), tensor.dtype, tensor.weight), emitter.storage())
    if tensor.name is not None:
        named[tensor.name] = known
    return known


def _aten(
    operator: Operator, inputs: Sequence[Known], outputs: Sequence[Known], where: str, emitter: Emitter
) -> tuple[str, Attributes, str]:
    """The canonical name, declared attributes, and why the operator is unknown, if it is. The call is made on tensors
    without data, so that PyTorch says whether it takes them and what comes out."""
    import torch

    from simdevice.frontends.schema import canonical_name, plain, plan_call

    _, base, *overload = operator.name.split(".", 2)
    packet = getattr(torch.ops.aten, base, None)
    if packet is None:
        return operator.name, (), f"PyTorch has no such operator{_near(operator.name)}"
    wanted = overload or [n for n in packet.overloads() if "out" not in n]
    refusals = []
    for key in wanted:
        function = getattr(packet, key, None)
        if function is None:
            raise UnknownNameError(f"overload of aten.{base}", key, packet.overloads())
        try:
            bound = _bound(function, operator, inputs, where)
        except SpecError as error:
            refusals.append(error)
            continue
        _check_call(function, bound, outputs, where, emitter)
        name = canonical_name(function)
        plan = plan_call(function, emitter.costs)
        values = [(n, bound.get(n, default)) for _, n, default in plan.attributes]
        return name, tuple((n, True if isinstance(v, Known) else plain(v)) for n, v in values), ""
    raise refusals[0]


def _bound(function: Any, operator: Operator, inputs: Sequence[Known], where: str) -> dict[str, Any]:
    """The call's arguments by name: inputs in the order of the schema's tensors, attributes by name."""
    waiting = list(inputs)
    bound: dict[str, Any] = {}
    missing = []
    arguments = function._schema.arguments
    for argument in arguments:
        kind = str(argument.type)
        if "Tensor" in kind:
            if kind.startswith("List") or "[]" in kind:
                bound[argument.name], waiting = waiting, []
            elif waiting:
                bound[argument.name] = waiting.pop(0)
            elif not kind.startswith("Optional"):
                raise SpecError(f"{where}: its input {argument.name!r} is missing")
        elif argument.name in operator.attributes:
            bound[argument.name] = operator.attributes[argument.name]
        elif not argument.has_default_value():
            missing.append(argument.name)
    _check_names(operator, [a.name for a in arguments if "Tensor" not in str(a.type)], where)
    if missing:
        raise SpecError(f"{where}: give {' and '.join(map(repr, missing))} in its attributes")
    if waiting:
        raise SpecError(f"{where}: it takes {len(inputs) - len(waiting)} inputs, got {len(inputs)}")
    return bound


def _check_call(
    function: Any, bound: Mapping[str, Any], outputs: Sequence[Known], where: str, emitter: Emitter
) -> None:
    import torch
    from torch.utils._pytree import tree_leaves, tree_map

    def empty(value: Any) -> Any:
        if not isinstance(value, Known):
            return value
        return torch.empty(value.spec.shape, dtype=getattr(torch, value.spec.dtype), device="meta")

    arguments = {k: getattr(torch, v, v) if k == "dtype" and isinstance(v, str) else v for k, v in bound.items()}
    try:
        with torch.no_grad():
            result = function(**tree_map(empty, arguments, is_leaf=lambda v: isinstance(v, Known)))
    except (NotImplementedError, AttributeError) as error:  # no meta kernel, or a type that PyTorch lacks
        emitter.note(f"{where}: its shapes are taken as they stand: {one_line(error, 80)}")
        return
    except (RuntimeError, IndexError, TypeError, ValueError) as error:
        raise SpecError(f"{where}: PyTorch doesn't take these inputs: {one_line(error)}") from error
    actual = [
        (tuple(t.shape), str(t.dtype).removeprefix("torch."))
        for t in tree_leaves(result)
        if isinstance(t, torch.Tensor)
    ]
    _check_outputs(actual, outputs, where)


def _check_outputs(actual: Sequence[tuple[Any, str]], outputs: Sequence[Known], where: str) -> None:
    """What the library makes of the inputs against what the list says."""
    said = [(t.spec.shape, t.spec.dtype) for t in outputs]
    if said != list(actual):
        raise SpecError(f"{where}: its outputs are {_shown(actual)}, the list says {_shown(said)}")


def _shown(tensors: Sequence[tuple[Any, str]]) -> str:
    return ", ".join(f"{'x'.join(map(str, shape)) or 'a scalar'} {dtype}" for shape, dtype in tensors) or "none"


def _onnx(
    operator: Operator, inputs: Sequence[Known], outputs: Sequence[Known], where: str, emitter: Emitter
) -> Attributes:
    """Declared attributes, `given` included, after ONNX's own inference was asked for the outputs."""
    import onnx
    from onnx import helper

    from simdevice.frontends.onnx.shapes import DATA_DECIDES, NO_SHAPE_RULE, Schemas, infer
    from simdevice.frontends.onnx.values import Value, shape_of
    from simdevice.frontends.onnx.values import dtype_name as onnx_dtype

    domain, _, kind = operator.name.rpartition(".")
    names = [f"i{n}" for n in range(len(inputs))]
    node = helper.make_node(
        kind, names, [f"o{n}" for n in range(len(outputs))], domain="" if domain == "onnx" else domain
    )
    opset = onnx.defs.onnx_opset_version()
    schemas = Schemas({"": opset, "com.microsoft": 1})
    schema = schemas.of(node)
    declared = emitter.costs.attributes(operator.name)
    if schema is not None:
        _check_names(operator, list(schema.attributes), where)
        node.attribute.extend(helper.make_attribute(k, v) for k, v in operator.attributes.items())
        values = [Value(t.spec.shape, t.spec.dtype, t.storage) for t in inputs]
        types, why = infer(node, values, schemas)
        if why and not why.endswith((DATA_DECIDES, NO_SHAPE_RULE)):
            raise SpecError(f"{where}: ONNX doesn't take these inputs: {why}")
        known = [(shape_of(t), onnx_dtype(t.tensor_type.elem_type)) for t in types if t is not None]
        if not why and len(known) == len(outputs) and all(shape is not None for shape, _ in known):
            _check_outputs(known, outputs, where)
        else:
            emitter.note(f"{where}: its shapes are taken as they stand")
    filled: dict[str, Any] = {"given": tuple(_formal(schema, n) for n in range(len(inputs)))}
    for key, attribute in (schema.attributes if schema is not None else {}).items():
        if attribute.default_value.type != onnx.AttributeProto.UNDEFINED:
            filled[key] = _plain(helper.get_attribute_value(attribute.default_value))
    filled |= {key: _plain(value) for key, value in operator.attributes.items()}
    return tuple((key, filled.get(key)) for key in declared)


def _formal(schema: Any, index: int) -> str:
    if schema is None or not schema.inputs:
        return str(index)
    name: str = schema.inputs[min(index, len(schema.inputs) - 1)].name
    return name


def _check_names(operator: Operator, valid: Sequence[str], where: str) -> None:
    for name in operator.attributes:
        if name not in valid:
            raise SpecError(f"{where}: unknown attribute {name!r}{nearest(name, valid)}")


def _near(name: str) -> str:
    domain = name.partition(".")[0]
    every = registered()
    return nearest(name, [n for n in every if n.partition(".")[0] == domain] or every)


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return tuple(map(_plain, value)) if isinstance(value, (list, tuple)) else value
