"""ONNX operators that run bodies: If, Loop, Scan, SequenceMap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from onnx import GraphProto, NodeProto

from simdevice.frontends.emitter import Branch
from simdevice.frontends.onnx.nodes import attribute, canonical_name
from simdevice.frontends.onnx.turns import Turns, allowed
from simdevice.frontends.onnx.values import Value, number_of, sequence, truth_of

if TYPE_CHECKING:
    from simdevice.frontends.onnx.walker import Environment, GraphWalker

__all__ = ["handles", "take"]

Handler = Callable[["GraphWalker", NodeProto, Sequence[Value | None], "Environment"], list[Value]]


def handles(node: NodeProto) -> bool:
    """Whether this module takes the node."""
    return canonical_name(node) in _HANDLERS


def take(walker: GraphWalker, node: NodeProto, inputs: Sequence[Value | None], env: Environment) -> list[Value]:
    """Walk the node's bodies; gives its outputs."""
    return _HANDLERS[canonical_name(node)](walker, node, inputs, env)


def _if(walker: GraphWalker, node: NodeProto, inputs: Sequence[Value | None], env: Environment) -> list[Value]:
    """1. The branch a known condition chooses. 2. The one that ran. 3. The costliest (FLOPs, then bytes), noted.

    Where a branch that is not shown holds work that nobody knows, what the operator costs is a lower bound: a row of
    its own says so, without bytes.
    """
    branches: dict[bool, GraphProto] = {
        True: attribute(node, "then_branch"),
        False: attribute(node, "else_branch"),
    }
    chosen = truth_of(inputs[0] if inputs else None)
    if chosen is None and walker.profile is not None:
        ran = [truth for truth, body in branches.items() if any(walker.profile.executed(n) for n in body.node)]
        if len(ran) == 1:
            chosen = ran[0]
        elif not ran and walker.profile.executed(node):  # a branch without a node
            empty = [truth for truth, body in branches.items() if not body.node]
            chosen = empty[0] if len(empty) == 1 else None
    if chosen is not None:
        return walker.walk(branches[chosen], env, [])
    walked: list[tuple[Branch, list[Value]]] = []
    for body in branches.values():
        with walker.emitter.aside() as branch:
            outputs = walker.walk(body, env, [])
        walked.append((branch, outputs))
    branch, outputs = max(walked, key=lambda f: walker.emitter.weigh(f[0]))
    hidden = [reason for other, _ in walked if other is not branch for reason in walker.emitter.unknowns(other)]
    walker.emitter.extend(branch)
    walker.emitter.note(f"If {node.name!r}: which branch runs follows from data; the costliest is shown")
    if hidden and not walker.emitter.unknowns(branch):
        reason = f"node {node.name!r} (If): the branch that is not shown may cost more: {hidden[0]}"
        walker.emitter.unresolved(canonical_name(node), [], [], reason)
    return outputs


def _loop(walker: GraphWalker, node: NodeProto, inputs: Sequence[Value | None], env: Environment) -> list[Value]:
    """As often as its trip count says, until its condition is known to be false, or as often as it ran."""
    body: GraphProto = attribute(node, "body")
    most = number_of(inputs[0] if inputs else None)
    condition = inputs[1] if len(inputs) > 1 else None
    carried = [v or Value(reason="nothing computes it") for v in inputs[2:]]
    ran = None
    if walker.profile is not None:
        ran = max((walker.profile.executed(n) for n in body.node), default=0)
        executed = walker.profile.executed(node)
        ran = ran // executed if executed else ran
    passes, first, is_cut = _passes_on(body), list(carried), False
    total = ran if ran is not None else most if passes else None

    def arguments(number: int | None, values: list[Value]) -> list[Value]:
        counted = None if number is None else np.array(number, np.int64)
        return [walker.fresh((), "int64", data=counted), *values]

    turns = Turns(walker, node, body, env, arguments, counts=True)
    stacked: list[list[Value]] = []
    turn = 0
    while turn < allowed(walker, turn) and (turn < ran if ran is not None else truth_of(condition) is not False):
        if ran is None and most is not None and turn >= most:
            break
        entry = condition or walker.fresh((), "bool", data=np.array(True))
        results = turns.walk(turn, [entry, *carried])
        turn += 1
        condition, carried, slices = results[0], results[1 : len(carried) + 1], results[len(carried) + 1 :]
        stacked.append(slices)
        counted = most is not None and (passes or truth_of(condition) is not None)
        tested = most is None and not passes and truth_of(condition) is not None
        if ran is None and not counted and not tested:
            walker.emitter.note(f"Loop {node.name!r}: how often it runs follows from data; one turn is shown")
            is_cut = True
            break
        if counted and most is not None:
            times, results = turns.repeat(turn, most)
            if times:
                turn, total = turn + times, most
                condition, carried = results[0], results[1 : len(carried) + 1]
                stacked += [slices] * times
                break
    if turn and not is_cut and turn != total and (total is not None or turn >= allowed(walker, turn)):
        of_all = f" of its {total:,}" if total is not None else ""
        walker.emitter.note(f"Loop {node.name!r}: {turn:,}{of_all} turns are shown")
    if is_cut:
        return _cut(node, first, carried, len(body.output) - 1 - len(carried))
    if not turn:
        scans = len(body.output) - 1 - len(carried)
        return [*carried, *(_stack(walker, node, [], 0, 0) for _ in range(scans))]
    count = turn if total is None else total
    return [*carried, *(_stack(walker, node, list(column), 0, count) for column in zip(*stacked, strict=True))]


def _cut(node: NodeProto, before: list[Value], after: list[Value], scans: int) -> list[Value]:
    """What is known after a loop of which only one turn was walked: values that its turns don't resize."""
    open_ = f"node {node.name!r} ({node.op_type}): how often it runs follows from data"
    kept = []
    for old, new in zip(before, after, strict=True):
        same = old.shape == new.shape and not new.is_sequence
        kept.append(Value(new.shape, new.dtype, new.storage) if same and new.resolved else _open(new, open_))
    return [*kept, *(Value(reason=open_) for _ in range(scans))]


def _open(value: Value, reason: str) -> Value:
    return sequence(None, reason) if value.is_sequence else Value(dtype=value.dtype, reason=reason)


def _passes_on(body: GraphProto) -> bool:
    """Whether a loop's body hands its condition on as it came: only the trip count ends the loop."""
    name = body.output[0].name
    maker = {o: n for n in body.node for o in n.output}
    while name in maker and maker[name].op_type == "Identity":
        name = maker[name].input[0]
    return len(body.input) > 1 and name == body.input[1].name


def _stack(walker: GraphWalker, node: NodeProto, slices: list[Value], axis: int, count: int) -> Value:
    """One value of all turns' slices along a new dimension; `count` are its turns, even if fewer were walked."""
    if not slices or any(not s.resolved for s in slices):
        reason = slices[0].reason if slices else "no turn of its loop tells the shape"
        return Value(reason=f"node {node.name!r} ({node.op_type}): {reason}")
    shape = list(slices[0].shape or ())
    if any(s.shape != slices[0].shape for s in slices):
        return Value(reason=f"node {node.name!r} ({node.op_type}): its turns give different shapes")
    at = axis % (len(shape) + 1)
    return walker.fresh((*shape[:at], count, *shape[at:]), slices[0].dtype)


def _scan(walker: GraphWalker, node: NodeProto, inputs: Sequence[Value | None], env: Environment) -> list[Value]:
    """A turn per slice of its scanned inputs; version 8 has a batch around it, whose items are turns too."""
    body: GraphProto = attribute(node, "body")
    batched = walker.schemas.opsets.get("", 0) < 9
    values = [v or Value(reason="nothing computes it") for v in (inputs[1:] if batched else inputs)]
    scanned = int(attribute(node, "num_scan_inputs", 1))
    states, sliced = values[: len(values) - scanned], values[len(values) - scanned :]
    in_axes = attribute(node, "scan_input_axes", [0] * scanned)
    outputs = len(body.output) - len(states)
    out_axes = attribute(node, "scan_output_axes", [0] * outputs)
    if any(not v.resolved for v in sliced):
        return _unwalked(walker, node, inputs)
    items = (sliced[0].shape or (1,))[0] if batched else 1
    if batched:
        states = [_slice(walker, v, 0) for v in states]
        sliced = [_slice(walker, v, 0) for v in sliced]
    turns = (sliced[0].shape or (0,))[in_axes[0]] if sliced else 0
    parts = [_slice(walker, v, axis) for v, axis in zip(sliced, in_axes, strict=True)]
    walked = Turns(walker, node, body, env, lambda _, values: [*values, *parts], counts=False)
    stacked: list[list[Value]] = []
    while len(stacked) < turns * items and len(stacked) < allowed(walker, len(stacked)):
        results = walked.walk(len(stacked), states)
        states, slices = results[: len(states)], results[len(states) :]
        stacked.append(slices)
        times, results = walked.repeat(len(stacked), turns * items)
        if times:
            states = results[: len(states)]
            stacked += [slices] * times
            break
    if len(stacked) < turns * items:
        walker.emitter.note(f"Scan {node.name!r}: {len(stacked):,} of its {turns * items:,} turns are shown")
    columns = list(zip(*stacked[: max(turns, 1)], strict=True)) or [()] * outputs
    gathered = [_stack(walker, node, list(c), axis, turns) for c, axis in zip(columns, out_axes, strict=False)]
    outcome = [*states, *gathered]
    return [_batch(walker, v, items) for v in outcome] if batched else outcome


def _slice(walker: GraphWalker, value: Value, axis: int) -> Value:
    """One turn's part: a view of the same storage."""
    if value.shape is None or not value.shape:
        return value
    at = axis % len(value.shape)
    shape = (*value.shape[:at], *value.shape[at + 1 :])
    return Value(shape, value.dtype, value.storage, value.is_weight, value.constant)


def _batch(walker: GraphWalker, value: Value, items: int) -> Value:
    return walker.fresh((items, *value.shape), value.dtype) if value.shape is not None else value


def _map(walker: GraphWalker, node: NodeProto, inputs: Sequence[Value | None], env: Environment) -> list[Value]:
    """SequenceMap: a turn per item of its first sequence; other sequences go along, tensors are the same for all."""
    body: GraphProto = attribute(node, "body")
    first = inputs[0]
    if first is None or first.items is None:
        return _unwalked(walker, node, inputs)
    turns = []
    for i in range(len(first.items)):
        arguments = [v.items[i] if v is not None and v.items is not None else v or Value() for v in inputs]
        turns.append(walker.walk(body, env, arguments))
    columns = list(zip(*turns, strict=True)) or [()] * len(node.output)
    return [sequence(list(column)) for column in columns]


def _unwalked(walker: GraphWalker, node: NodeProto, inputs: Sequence[Value | None]) -> list[Value]:
    """Its body can't be walked: one row that says so."""
    blocked = next((v.reason for v in inputs if v is not None and not v.resolved and not v.is_sequence), "")
    why = f"after {blocked}" if blocked else "how often it runs follows from data"
    outputs = [Value(reason=f"node {node.name!r} ({node.op_type}): {why}") for _ in node.output]
    walker.emit(node, inputs, outputs)
    walker.emitter.mark("body not walked", outputs[0].reason if outputs else why)
    return outputs


_HANDLERS: dict[str, Handler] = {
    "onnx.If": _if,
    "onnx.Loop": _loop,
    "onnx.Scan": _scan,
    "onnx.SequenceMap": _map,
}
