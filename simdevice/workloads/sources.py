"""What a user hands over to be traced: each kind of source with the options that are its own, told apart in one place.

Building and reading is `models`, `functions` and the front ends; here is only who does it.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar

from simdevice.errors import FileFormatError, SpecError, UnknownNameError
from simdevice.frontends import Workload
from simdevice.frontends.base import ATTENTION, Document
from simdevice.frontends.exported_program import Exported
from simdevice.frontends.onnx_file import OnnxFile

__all__ = ["KINDS", "Source", "is_trace_file", "kind_of", "source"]

_ON_COMMAND_LINE = {"dims": "dims (--dim)"}
"""Options that the command line spells differently."""


@dataclass(frozen=True)
class Source:
    """A program as it was handed over. Its fields are the options of its kind; `args` are inputs by position."""

    given: Any
    kind: ClassVar[str]

    @classmethod
    def options(cls) -> tuple[str, ...]:
        """The options that go with this kind."""
        return tuple(f.name for f in fields(cls) if f.name not in ("given", "args"))

    def workload(self) -> Workload:
        """The program with the inputs it is asked with."""
        raise NotImplementedError


@dataclass(frozen=True)
class NamedModel(Source):
    """Asked for one step after `decode` tokens, or for a prefill of `tokens`; `batch` sequences at once."""

    kind = "a model name"
    tokens: int | None = None
    decode: int | None = None
    batch: int = 1
    dtype: str | None = None
    cache: bool | None = None
    attention: str | None = None

    def workload(self) -> Workload:
        """The model on the meta device, with inputs made for it."""
        from simdevice.workloads import models

        built = models.build(self.given, dtype=self.dtype)
        return self._asked(built, str(self.given))

    def _asked(self, model: Any, name: str) -> Workload:
        from simdevice.workloads import models

        asked = models.ask(model, tokens=self.tokens, decode=self.decode, batch=self.batch, cache=self.cache, name=name)
        return replace(asked, attention=self.attention)


@dataclass(frozen=True)
class Configuration(NamedModel):
    """A Hugging Face config.json; options as for a name."""

    kind = "a configuration file"

    def workload(self) -> Workload:
        """The model on the meta device, with inputs made for it."""
        from simdevice.workloads import models

        return self._asked(models.build(config=self.given, dtype=self.dtype), Path(self.given).stem)


@dataclass(frozen=True)
class OnnxModel(Source):
    """`dims`, `shapes` and `inputs` as OnnxFile has them."""

    kind = "an ONNX file"
    dims: Mapping[str, Any] = field(default_factory=dict)
    shapes: str = "infer"
    inputs: Mapping[str, Any] = field(default_factory=dict)

    def workload(self) -> Workload:
        """The file, not yet read."""
        file = OnnxFile(self.given, dims=self.dims, inputs=self.inputs, shapes=self.shapes)
        return Workload(file, name=Path(self.given).name)


@dataclass(frozen=True)
class ExportedModel(Source):
    """A `torch.export.ExportedProgram`, or a file of one; `dims` as `frontends.exported_program.bind` has them."""

    kind = "an exported program"
    dims: Mapping[str, Any] = field(default_factory=dict)

    def workload(self) -> Workload:
        """The program, not yet read."""
        name = Path(self.given).name if isinstance(self.given, str) else "exported program"
        return Workload(Exported(self.given, self.dims), name=name)


@dataclass(frozen=True)
class Operators(Source):
    """A list of mappings, or a JSON file of one, as `frontends.operator_list` describes them."""

    kind = "a list of operators"

    def workload(self) -> Workload:
        """The list, not yet read."""
        from simdevice.frontends.operator_list import OperatorList

        name = Path(self.given).name if isinstance(self.given, str) else "operators"
        return Workload(OperatorList(self.given), name=name)


@dataclass(frozen=True)
class Function(Source):
    """A function that returns (module, inputs)."""

    kind = "package.module:function"
    attention: str | None = None

    def workload(self) -> Workload:
        """What the function returned."""
        from simdevice.workloads.functions import called

        return replace(called(self.given), attention=self.attention)


@dataclass(frozen=True)
class Call(Source):
    """Any callable, a whole training step say, and what it is called with."""

    kind = "a callable"
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    attention: str | None = None

    def workload(self) -> Workload:
        """The call."""
        return Workload(self.given, self.args, self.kwargs, name=_name(self.given), attention=self.attention)


@dataclass(frozen=True)
class Module(Call):
    """A module with its inputs, or, of a published kind, with inputs made from tokens, decode and batch."""

    kind = "a module"
    tokens: int | None = None
    decode: int | None = None
    batch: int | None = None
    cache: bool | None = None

    def workload(self) -> Workload:
        """The call, its inputs given or made."""
        from simdevice.workloads import models

        asked = any(option is not None for option in (self.tokens, self.decode, self.batch, self.cache))
        given = bool(self.args or self.kwargs)
        if asked and given:
            raise SpecError("give inputs, or tokens, decode, batch and cache to have them made, not both")
        if given or not (asked or models.takes_made_inputs(self.given)):
            return super().workload()
        if not models.takes_made_inputs(self.given):
            raise SpecError(f"inputs can be made for transformers models only: give {_name(self.given)} its inputs")
        made = models.ask(
            self.given,
            tokens=self.tokens,
            decode=self.decode,
            batch=1 if self.batch is None else self.batch,
            cache=self.cache,
            name=_name(self.given),
        )
        return replace(made, attention=self.attention)


@dataclass(frozen=True)
class Given(Source):
    """A Workload, which holds its inputs already."""

    kind = "a Workload"
    attention: str | None = None

    def workload(self) -> Workload:
        """As it came."""
        given: Workload = self.given
        if self.attention is None:
            return given
        if isinstance(given.program, Document):
            raise SpecError(f"attention is no option of {given.name or 'a program that is only read'}")
        return replace(given, attention=self.attention)


KINDS: tuple[type[Source], ...] = (
    NamedModel,
    Configuration,
    OnnxModel,
    ExportedModel,
    Operators,
    Function,
    Module,
    Call,
    Given,
)


def kind_of(given: Any) -> type[Source]:
    """Which kind of source this is: by its class, by a file's ending and what it holds, or by how a name is written.

    Raises:
        SpecError: nothing that can be traced. FileFormatError: a JSON file that can't be read or is no source.
    """
    if isinstance(given, Workload):
        return Given
    if not isinstance(given, (str, os.PathLike)):
        torch = sys.modules.get("torch")  # nothing is a module of what was never imported
        exports = sys.modules.get("torch.export")
        if exports is not None and isinstance(given, exports.ExportedProgram):
            return ExportedModel
        if isinstance(given, (list, tuple)):
            return Operators
        if not callable(given):
            raise SpecError(f"expected a model name, a module, a function or a Workload, got {given!r}")
        return Module if torch is not None and isinstance(given, torch.nn.Module) else Call
    name = os.fspath(given)
    suffix = Path(name).suffix.lower()
    if suffix == ".onnx":
        return OnnxModel
    if suffix == ".json":
        return Operators if Path(name).is_file() and _head(Path(name)).lstrip().startswith("[") else Configuration
    if suffix in (".pt2", ".pt", ".pth"):  # what the last two are is said when they are read
        return ExportedModel
    if Path(name).is_file() or (os.sep in name and ":" not in name):
        raise SpecError(
            f"expected a model name, a config.json, an .onnx or .pt2 file or package.module:function, got {name!r}"
        )
    return Function if ":" in name else NamedModel


def source(given: Any, args: tuple[Any, ...] = (), options: Mapping[str, Any] | None = None) -> Source:
    """The source, with options that are its kind's; None is an option not given.

    Raises:
        SpecError: nothing that can be traced, or an option of another kind. UnknownNameError: an option of none.
    """
    if isinstance(given, os.PathLike):
        given = os.fspath(given)
    kind = kind_of(given)
    chosen = {name: value for name, value in (options or {}).items() if value is not None}
    shown = f"{kind.kind} ({given})" if isinstance(given, str) else kind.kind
    for name in chosen:
        if name not in kind.options():
            others = [other.kind for other in KINDS if name in other.options()]
            if not others:
                raise UnknownNameError(f"option of {shown}", name, kind.options())
            spelt = _ON_COMMAND_LINE.get(name, name)
            raise SpecError(f"{spelt} is no option of {shown}: it goes with {_listed(others)}")
    attention = chosen.get("attention")
    if attention is not None and attention not in ATTENTION:
        raise UnknownNameError("kind of attention", str(attention), ATTENTION)
    if args:
        if not issubclass(kind, Call):
            raise SpecError(f"inputs by position go with a module or a callable, not with {shown}")
        chosen["args"] = args
    return kind(given, **chosen)


def _listed(kinds: list[str]) -> str:
    return kinds[0] if len(kinds) == 1 else f"{', '.join(kinds[:-1])} or {kinds[-1]}"


def _name(program: Callable[..., Any]) -> str:
    return getattr(program, "__qualname__", None) or type(program).__name__


def is_trace_file(given: str) -> bool:
    """Whether this is a trace already, which needs no tracing; a JSON file says so by its first keys.

    Raises:
        FileFormatError: a JSON file that is neither that nor a source.
    """
    path = Path(given)
    if path.suffix != ".json":
        return path.suffix == ".npz"
    head = _head(path)
    if head.lstrip().startswith("["):
        return False
    if re.search(r'"format"\s*:', head):
        return True
    if re.search(r'"model_type"\s*:', head):
        return False
    raise FileFormatError(
        f"{path}: expected a trace, a list of operators, or a Hugging Face config.json with a 'model_type'"
    )


def _head(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(4096)
    except OSError as error:
        raise FileFormatError(f"cannot read {path}: {error.strerror}") from None
