"""`simacc models`: the models that are known by name."""

from __future__ import annotations

from typing import Any

from simdevice.cli._common import print_page, progress
from simdevice.cli._options import JsonOption
from simdevice.report.page import COUNT, TEXT, Column, Page, Section, Table, Unit
from simdevice.units import format_count

__all__ = ["command"]

COLUMNS = (
    Column("name", "name", TEXT),
    Column("type", "class", TEXT),
    Column("parameters", "parameters", Unit(lambda count: format_count(count, ""))),
    Column("dtype", "dtype", TEXT),
    Column("layers", "layers", COUNT),
)


def command(json: JsonOption = False) -> None:
    """List the models that are known by name; any other Hugging Face config.json works too."""
    with progress("building the models, without their weights"):
        from simdevice.workloads import models

        rows = [_describe(name, models.build(name)) for name in models.names()]
    section = Section("models", tables=(Table.of("models", COLUMNS, rows),))
    print_page(Page("Models", sections=(section,), document="models"), as_json=json)


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
