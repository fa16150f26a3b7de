"""`simacc export`: a model as an ONNX file without its weights."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from simdevice.cli._common import check_output, print_saved, progress
from simdevice.cli._options import ModelArgument, Tracing, tracing_options
from simdevice.errors import SimdeviceError, SpecError
from simdevice.workloads.sources import source

__all__ = ["command"]

Output = Annotated[Path, typer.Option("--output", "-o", metavar="FILE.onnx", help="The file to write.")]
Opset = Annotated[int | None, typer.Option("--opset", min=1, help="Version of ONNX's operators (default: PyTorch's).")]
_OTHERS = ("decode", "cache", "attention", "frontend", "scopes", "strict", "flop_counter", "dim", "shapes")


@tracing_options(without=_OTHERS)
def command(model: ModelArgument, output: Output, opset: Opset = None, *, tracing: Tracing) -> None:
    """Export a model to ONNX without its weights, which stay typed inputs: a small file however large the model."""
    if output.suffix != ".onnx":
        raise SpecError(f"{output}: expected a name that ends in .onnx")
    check_output(output)
    with progress(f"exporting {model}"):
        from simdevice.workloads.configurations import quieten

        quieten()
        workload = source(model, options=tracing.options()).workload()
        if "onnx" not in workload.front_ends or "dispatch" not in workload.front_ends:
            raise SpecError(f"{model} is no model of PyTorch's, which alone can be exported")
        try:
            from simdevice.frontends.onnx.export import save
        except ModuleNotFoundError as error:
            raise SimdeviceError(f"exporting needs {error.name}: pip install 'simdevice[all]'") from None
        save(workload, output, opset=opset)
    print_saved(output)
