"""Where the tensors of a captured graph are. Asks the graph; runs nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import GraphModule

__all__ = ["touches_simacc"]


def touches_simacc(module: GraphModule, example: Sequence[Any]) -> bool:
    """Whether a graph takes, or makes, a tensor on simacc."""
    results = (node.meta.get("example_value") for node in module.graph.nodes)
    return any(isinstance(t, torch.Tensor) and t.device.type == "simacc" for t in (*example, *results))
