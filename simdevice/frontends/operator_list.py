"""A list of operators as a program: what a compiler team has in its hands. Its schema; costs nothing itself."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from simdevice.errors import CaptureError, FileFormatError, SpecError
from simdevice.frontends.base import Document

__all__ = ["Operator", "OperatorList", "Tensor", "read"]


class Tensor(BaseModel):
    """A tensor. Later operators depend on this one's by its `name`; `weight` says that it is a parameter."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    shape: list[Annotated[int, Field(ge=0)]]
    dtype: str
    name: str | None = None
    weight: bool = False


class Operator(BaseModel):
    """One call: `aten.bmm`, `onnx.MatMul`. An input or output is a Tensor or the name of one that came before;
    `attributes` are arguments that are no tensors; `scope` is a module path."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    name: Annotated[str, Field(min_length=1)]
    inputs: list[Tensor | str]
    outputs: list[Tensor | str]
    attributes: dict[str, Any] = {}
    scope: str = ""


@dataclass(frozen=True)
class OperatorList(Document):
    """`given` is a path of a JSON file or a list of mappings."""

    front_ends: ClassVar[tuple[str, ...]] = ("operators",)
    why: ClassVar[str] = "its operators are costed as they stand"
    given: str | Sequence[Any]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """A list is no callable."""
        raise CaptureError("a list of operators is read by the 'operators' front end only")


def read(source: OperatorList) -> tuple[Operator, ...]:
    """The operators, checked.

    Raises:
        FileFormatError: a file that can't be read or is no JSON list. SpecError: an entry that is no operator.
    """
    given: Any = source.given
    where = ""
    if isinstance(given, str):
        where = f"{given}: "
        try:
            given = json.loads(Path(given).read_text(encoding="utf-8"))
        except OSError as error:
            raise FileFormatError(f"cannot read {source.given}: {error.strerror}") from None
        except (ValueError, RecursionError) as error:
            raise FileFormatError(f"{source.given} is not JSON: {error}") from None
    if not given:
        raise SpecError(f"{where}expected at least one operator")
    try:
        return tuple(TypeAdapter(list[Operator]).validate_python(list(given)))
    except ValidationError as error:
        first = error.errors()[0]
        at, *keys = first["loc"] or (0,)
        place = ".".join(str(key) for key in keys)
        got = f", got {first['input']!r}" if first["type"] not in ("missing", "extra_forbidden") else ""
        said = " ".join(f"{where}operator {at}: {place}: {first['msg']}{got}".split())
        raise SpecError(said[:300]) from None
