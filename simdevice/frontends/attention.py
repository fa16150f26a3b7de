"""How attention was done in a trace: by one operator or by products and a softmax; masked; with keys repeated."""

from __future__ import annotations

from collections.abc import Sequence

from simdevice.records import Cost, Signature, Trace

__all__ = ["said_of"]

_SCORES, _PROBABILITIES, _MASKED, _REPEATED = 1, 2, 4, 8
"""What is known of a storage. Scores are a product of two tensors of which neither is a weight, and what is computed
from one element by element; probabilities a softmax of scores."""

_MASKS = ("add", "masked_fill", "where", "Add", "Where", "baddbmm")
"""Operators by which a mask comes upon scores, the first part of their names being the domain."""

_GROWS = ("expand", "repeat", "repeat_interleave", "Expand", "Tile")

_MASK_INPUTS = frozenset(("attention_bias", "attn_mask", "key_padding_mask", "mask_index"))


def said_of(trace: Trace) -> list[str]:
    """Words for the trace's path. Attention is named only where a row of it ran: a softmax of a classifier is none, nor
    is an operator of a branch that isn't shown."""
    used = sorted(set(trace.rows.signature.tolist()))
    signatures, costs = trace.table.signatures, trace.table.costs
    fused = sorted({signatures[i].name for i in used if _is_fused(signatures[i], costs[i])})
    if not fused and not any(costs[i].category == "softmax" for i in used):
        return []
    ran, is_masked, is_repeated = _followed(trace)
    words = []
    if fused:
        words.append(f"fused attention ({', '.join(fused)})")
    elif ran:
        words.append("attention as matrix products and softmax")
    if is_masked:
        words.append("explicit mask")
    if is_repeated:
        words.append("repeated keys")
    return words


def _is_fused(signature: Signature, cost: Cost) -> bool:
    return cost.category == "attention" or "scaled_dot_product" in signature.name or "flex_attention" in signature.name


def _followed(trace: Trace) -> tuple[bool, bool, bool]:
    """Whether two products with a softmax between them were met, whether a mask was, and whether keys were repeated."""
    known: dict[int, int] = {}
    ran = is_masked = is_repeated = False
    table = trace.table
    offsets = trace.rows.offsets(table).tolist()
    tensors = trace.rows.tensors.tolist()
    rules = {i: _kind(table.signatures[i], table.costs[i]) for i in set(trace.rows.signature.tolist())}
    for row, index in enumerate(trace.rows.signature.tolist()):
        signature, kind = table.signatures[index], rules[index]
        split = offsets[row] + len(signature.inputs)
        marks = [known.get(t, 0) for t in tensors[offsets[row] : split]]
        every = 0
        for mark in marks:
            every |= mark
        if kind == "fused":
            is_masked |= _takes_mask(signature)
            is_repeated |= bool(len(marks) > 1 and marks[1] & _REPEATED)
            out = 0
        elif kind == "product":
            if every & _PROBABILITIES:
                ran = True
                is_masked |= bool(every & _MASKED)
                is_repeated |= bool(every & _REPEATED)
            # of rotary angles, a product too, no repetition counts: only tensors that were moved and no more
            out = _SCORES | (_REPEATED if any(m & _REPEATED and not m & _SCORES for m in marks) else 0)
            out |= _MASKED if _base(signature.name) == "baddbmm" else 0
        elif kind == "softmax":
            out = _PROBABILITIES | (every & (_MASKED | _REPEATED)) if every & _SCORES else 0
        elif kind == "moves":
            out = every | (_REPEATED if _grows(signature) else 0)
        elif kind == "elementwise":
            out = _MASKED if _adds_mask(signature, marks) else 0
            for mark in marks:  # a mask may be repeated over heads: that is no repeated key
                out |= mark if mark & (_SCORES | _PROBABILITIES) else 0
        else:
            out = 0
        for tensor in tensors[split : offsets[row + 1]]:
            if out:
                known[tensor] = out
            elif kind != "moves":
                known.pop(tensor, None)
    return ran, is_masked, is_repeated


def _kind(signature: Signature, cost: Cost) -> str:
    if _is_fused(signature, cost):
        return "fused"
    if cost.category == "matmul":
        return "weights" if any(t.is_weight for t in signature.inputs) else "product"
    if cost.category in ("view", "movement") or _base(signature.name) in _GROWS:
        return "moves"
    return cost.category


def _base(name: str) -> str:
    """`add` of `aten.add_`: the operator's own name."""
    return name.rpartition(".")[2].removesuffix("_")


def _adds_mask(signature: Signature, marks: Sequence[int]) -> bool:
    """Whether scores meet a tensor of many elements that is none of scores."""
    others = [t for t, mark in zip(signature.inputs, marks, strict=True) if not mark & _SCORES]
    return _base(signature.name) in _MASKS and any(t.numel > 1 for t in others) and any(m & _SCORES for m in marks)


def _grows(signature: Signature) -> bool:
    """Whether tensors are repeated: a head's keys for each of several queries' heads."""
    if _base(signature.name) not in _GROWS or not signature.inputs or not signature.outputs:
        return False
    return signature.outputs[0].numel > signature.inputs[0].numel


def _takes_mask(signature: Signature) -> bool:
    """Whether a fused operator was given a mask: by its inputs' names, or as its fourth tensor (query, key, value)."""
    if "backward" in signature.name:
        return False
    names = signature.attribute("given")
    if names is not None:
        return bool(_MASK_INPUTS.intersection(names))
    return "scaled_dot_product" in signature.name and len(signature.inputs) > 3
