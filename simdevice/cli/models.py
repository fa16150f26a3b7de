"""`simacc models`: the models that are known by name."""

from __future__ import annotations

from typing import Any

from simdevice.cli._common import console, print_json, progress, table
from simdevice.cli._options import JsonOption
from simdevice.units import format_count

__all__ = ["command"]


def command(json: JsonOption = False) -> None:
    """List the models that are known by name; any other Hugging Face config.json works too."""
    with progress("building the models, without their weights"):
        from simdevice.workloads import models

        rows = [_describe(name, models.build(name)) for name in models.names()]
    if json:
        print_json(rows)
        return
    shown = [[r["name"], r["type"], format_count(r["parameters"], ""), r["dtype"], r["layers"] or "-"] for r in rows]
    columns = ["name", "class", "parameters", "dtype", "layers"]
    console().print(table("Models", columns, [[str(cell) for cell in row] for row in shown]))


def _describe(name: str, model: Any) -> dict[str, Any]:
    config = getattr(model, "config", None)
    parameters = list(model.parameters())
    return {
        "name": name,
        "type": type(model).__name__,
        "parameters": sum(p.numel() for p in parameters),
        "dtype": str(parameters[0].dtype).removeprefix("torch."),
        "layers": getattr(config, "num_hidden_layers", None),
    }
