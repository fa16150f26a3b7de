"""Find machine descriptions by name or path and read them; a broken file is one line that names file, line and key."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import yaml

from simdevice.errors import SpecError, UnknownNameError, nearest
from simdevice.files import config_root
from simdevice.hardware.specs import (
    AcceleratorSpec,
    DeviceSpec,
    FieldError,
    HostSpec,
    LinkSpec,
    NullSpec,
    OffloadSpec,
    RooflineSpec,
    Spec,
)

__all__ = ["config_root", "host_names", "link_names", "load", "load_host", "load_link", "names"]

KINDS: dict[str, type[DeviceSpec]] = {
    "accelerator": AcceleratorSpec,
    "null": NullSpec,
    "offload": OffloadSpec,
    "roofline": RooflineSpec,
}

S = TypeVar("S", bound=Spec)


def names() -> list[str]:
    """The devices that `load` knows by name."""
    return _stems("accelerators")


def host_names() -> list[str]:
    """The hosts that `load_host` knows by name."""
    return _stems("hosts")


def link_names() -> list[str]:
    """The links that `load_link` knows by name."""
    return _stems("links")


def load(device: str | Path | DeviceSpec, **overrides: object) -> DeviceSpec:
    """A device by name, by the path of a YAML file, or as it is; `overrides` replace single fields. "null" is the
    machine on which nothing takes time.

    Raises:
        UnknownNameError: no preset of that name.
        SpecError: a file that cannot be read or a value that cannot be.
    """
    if isinstance(device, DeviceSpec):
        return device.replace(**overrides)
    if device == "null":
        return NullSpec(name="null").replace(**overrides)
    path = _find("accelerators", "device", device)
    fields, lines = _read(path)
    kind = fields.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        said = "is missing" if kind is None else f"is {kind!r}"
        raise SpecError(f"{path}:{lines.get('kind', 1)}: field 'kind' {said}{nearest(str(kind), KINDS)}")
    if kind == "offload":
        fields = _with_parts(path, fields, lines)
    spec: DeviceSpec = _build(KINDS[kind], path, fields, lines)
    if isinstance(spec, (AcceleratorSpec, RooflineSpec)) and "link" not in overrides:
        try:
            load_link(spec.link)
        except (SpecError, UnknownNameError) as error:
            raise SpecError(f"{path}:{lines.get('link', 1)}: {error}") from None
    return spec.replace(**overrides)


def _with_parts(path: Path, fields: dict[str, Any], lines: dict[str, int]) -> dict[str, Any]:
    """The machines that an offload device's file names, loaded; the link is the device's own where none is named."""
    parts = dict(fields)
    loaders: dict[str, Any] = {"device": load, "host": load_host, "link": load_link}
    for key, loader in loaders.items():
        if key == "host":
            parts.setdefault(key, "host-cpu")
        if key == "link" and isinstance(parts.get("device"), (AcceleratorSpec, RooflineSpec)):
            parts.setdefault(key, parts["device"].link)
        if key not in parts:
            continue  # the description says what is missing
        try:
            parts[key] = loader(parts[key])
        except (SpecError, UnknownNameError) as error:
            raise SpecError(f"{path}:{lines.get(key, 1)}: {error}") from None
    return parts


def load_host(host: str | Path | HostSpec, **overrides: object) -> HostSpec:
    """A host by name, path or object; errors as for `load`."""
    spec = host if isinstance(host, HostSpec) else _load(HostSpec, "hosts", "host", host)
    return spec.replace(**overrides)


def load_link(link: str | Path | LinkSpec, **overrides: object) -> LinkSpec:
    """A link by name, path or object; errors as for `load`."""
    spec = link if isinstance(link, LinkSpec) else _load(LinkSpec, "links", "link", link)
    return spec.replace(**overrides)


def _load(cls: type[S], folder: str, kind: str, name: str | Path) -> S:
    path = _find(folder, kind, name)
    return _build(cls, path, *_read(path))


def _stems(folder: str) -> list[str]:
    """Preset names: paths below the folder without their ending, such as "published/h100"; plain ones first."""
    root = config_root() / folder
    return sorted((_preset(p, root) for p in root.rglob("*.yaml")), key=lambda name: ("/" in name, name))


def _preset(path: Path, root: Path) -> str:
    return path.relative_to(root).with_suffix("").as_posix()


def _find(folder: str, kind: str, name: str | Path) -> Path:
    """A preset's name, or one that has neither folder nor ending; anything else is a path."""
    known = _stems(folder)
    if isinstance(name, str) and (
        name in known
        or name.startswith("published/")
        or (not name.endswith((".yaml", ".yml")) and "/" not in name and "\\" not in name)
    ):
        if name not in known:
            raise UnknownNameError(kind, name, known)
        return config_root() / folder / f"{name}.yaml"
    if not isinstance(name, (str, Path)):
        raise SpecError(f"expected the name of a {kind} or a YAML file, got {name!r}")
    return Path(name)


def _read(path: Path) -> tuple[dict[str, Any], dict[str, int]]:
    """The fields of a YAML mapping and the line of each."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not a text file"
        raise SpecError(f"cannot read {path}: {why}") from None
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        fields = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark is not None else ""
        raise SpecError(f"{path}{line}: not YAML: {getattr(error, 'problem', None) or 'cannot be parsed'}") from None
    if not isinstance(node, yaml.MappingNode) or not isinstance(fields, dict):
        raise SpecError(f"{path}: expected 'field: value' lines, got {type(fields).__name__}")
    lines: dict[str, int] = {}
    for key, _ in node.value:
        line = key.start_mark.line + 1
        if key.value in lines:
            raise SpecError(f"{path}:{line}: field {key.value!r} is given twice, first on line {lines[key.value]}")
        lines[key.value] = line
    return {str(key): value for key, value in fields.items()}, lines


def _build(cls: type[S], path: Path, fields: dict[str, Any], lines: dict[str, int]) -> S:
    try:
        return cls(**{"name": _name_of(path), **fields})
    except FieldError as error:
        line = f":{lines[error.key]}" if error.key in lines else ""
        raise SpecError(f"{path}{line}: {error}") from None


def _name_of(path: Path) -> str:
    """A preset is called by its name, a file by its own."""
    for folder in ("accelerators", "hosts", "links"):
        root = config_root() / folder
        if path.is_relative_to(root):
            return _preset(path, root)
    return path.stem
