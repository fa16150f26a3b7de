"""`simacc trace`: a model's operators and what they need, on screen or in a file."""

from __future__ import annotations

from simdevice.cli._common import capture, check_output, console, print_json, print_saved, progress
from simdevice.cli._options import (
    BatchOption,
    DecodeOption,
    DimOption,
    DtypeOption,
    FakeOption,
    FrontendOption,
    JsonOption,
    ModelArgument,
    OutputOption,
    ScopesOption,
    ShapesOption,
    StrictOption,
    TokensOption,
)
from simdevice.cli._traces import describe, show

__all__ = ["command"]


def command(
    model: ModelArgument,
    tokens: TokensOption = None,
    decode: DecodeOption = None,
    batch: BatchOption = 1,
    dtype: DtypeOption = None,
    fake: FakeOption = None,
    frontend: FrontendOption = "dispatch",
    scopes: ScopesOption = True,
    strict: StrictOption = False,
    dim: DimOption = None,
    shapes: ShapesOption = "infer",
    output: OutputOption = None,
    json: JsonOption = False,
) -> None:
    """Trace a model without its weights: operators, FLOPs, bytes and memory."""
    check_output(output)
    found = capture(
        model,
        tokens=tokens,
        decode=decode,
        batch=batch,
        dtype=dtype,
        fake=fake,
        frontend=frontend,
        scopes=scopes,
        strict=strict,
        dim=dim,
        shapes=shapes,
    )
    if output is not None:
        with progress(f"writing {output}"):
            found.save(output)
    if json:
        print_json({**describe(found), "saved": None if output is None else str(output)})
        return
    show(found, console())
    if output is not None:
        print_saved(output)
