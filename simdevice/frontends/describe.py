"""What a trace says about itself: the device its tensors claim, and which way through a library it shows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from simdevice.frontends.base import Workload

__all__ = ["device_of", "one_line", "path_of", "title"]


def title(workload: Workload) -> str:
    """The workload's name and description."""
    return " ".join(part for part in (workload.name, workload.description) if part)


def device_of(root: Any, *inputs: Any) -> str:
    """The device type the tensors claim: the parameters', else the inputs'."""
    import torch  # here: walking an ONNX file needs no PyTorch
    from torch.utils._pytree import tree_leaves

    parameters = root.parameters() if isinstance(root, torch.nn.Module) else ()
    for found in (*parameters, *tree_leaves(inputs)):
        if isinstance(found, torch.Tensor):
            return found.device.type
    return ""


def path_of(said: str, operators: Iterable[str]) -> str:
    """What the workload says, and how attention was done."""
    names = set(operators)
    fused = sorted(n for n in names if "scaled_dot_product" in n or "flex_attention" in n or n == "onnx.Attention")
    parts = [said] if said else []
    if fused:
        parts.append(f"fused attention ({', '.join(fused)})")
    elif names & {"aten._softmax", "aten._safe_softmax", "onnx.Softmax"}:
        parts.append("attention as matrix products and softmax")
    return ", ".join(parts)


def one_line(error: BaseException, limit: int = 200) -> str:
    """An error's text on one line, shortened."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= limit else text[: limit - 3] + "..."
