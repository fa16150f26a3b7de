"""What is known of operators by domain and name: formal inputs and result shapes, where onnx has no schema or none that
tells. Cost rules have the same key (`canonical_name`)."""

from __future__ import annotations

from onnx import NodeProto

from simdevice.frontends.onnx.nodes import domain_of
from simdevice.frontends.onnx.operators import blocked, classical, microsoft
from simdevice.frontends.onnx.operators.base import Contributed, asked, operator
from simdevice.frontends.onnx.operators.microsoft_shapes import norm

__all__ = ["OPERATORS", "Contributed", "asked", "known"]

OPERATORS: dict[str, dict[str, Contributed]] = {
    "": {"SimplifiedLayerNormalization": operator("X scale", norm)},  # ONNX Runtime's, without a domain of its own
    blocked.DOMAIN: blocked.OPERATORS,
    classical.DOMAIN: classical.OPERATORS,
    microsoft.DOMAIN: microsoft.OPERATORS,
}
"""By domain, then by name: a `Conv` of a domain that is not here has no formal inputs and no shapes."""


def known(node: NodeProto) -> Contributed | None:
    """What is known of the node's operator, or None."""
    return OPERATORS.get(domain_of(node), {}).get(node.op_type)
