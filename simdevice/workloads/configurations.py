"""Hugging Face configurations: by name from `configs/models`, by file, or by model type; and the class each builds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from simdevice.errors import FileFormatError, SpecError, UnknownNameError
from simdevice.files import config_root

__all__ = ["by_type", "model_class", "names", "quieten", "read"]

_HEADS = (
    # An encoder-decoder is asked as one; an encoder fills masks; only then is a decoder a decoder
    # (transformers lists BERT among the causal models too).
    "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING",
    "MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING",
    "MODEL_FOR_MASKED_LM_MAPPING",
    "MODEL_FOR_CAUSAL_LM_MAPPING",
    "MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING",
    "MODEL_FOR_OBJECT_DETECTION_MAPPING",
    "MODEL_FOR_CTC_MAPPING",
    "MODEL_FOR_AUDIO_CLASSIFICATION_MAPPING",
    "MODEL_MAPPING",
)


def names() -> list[str]:
    """The published configurations that are shipped."""
    return sorted(path.stem for path in _folder().glob("*.json"))


def _folder() -> Path:
    return config_root() / "models"


def read(name: str | Path) -> Any:
    """The configuration of this name, or of this JSON file.

    Raises:
        UnknownNameError: no such name, or a `model_type` that transformers doesn't have.
        FileFormatError: a file that can't be read or is no configuration.
    """
    path = Path(name)
    if path.suffix != ".json":
        if str(name) not in names():
            raise UnknownNameError("model", str(name), names())
        path = _folder() / f"{name}.json"
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FileFormatError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise FileFormatError(f"{path} is not JSON: {error}") from None
    if not isinstance(fields, dict) or not isinstance(fields.get("model_type"), str):
        raise FileFormatError(f"{path}: expected a Hugging Face config.json with a 'model_type'")
    kept = {key: value for key, value in fields.items() if not key.startswith("_")}
    try:
        return by_type(kept.pop("model_type"), **kept)
    except SpecError as error:
        raise FileFormatError(f"{path}: {error}") from None


def by_type(model_type: str, **fields: Any) -> Any:
    """A configuration of a transformers model type, with fields of its own on top of the library's defaults."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    if model_type not in CONFIG_MAPPING:
        raise UnknownNameError("model type", model_type, CONFIG_MAPPING.keys())
    try:
        return CONFIG_MAPPING[model_type](**fields)
    except Exception as error:  # the library's validators raise many kinds
        reason = " ".join(str(error).split()) or type(error).__name__
        raise SpecError(f"transformers refuses this {model_type!r} configuration: {reason}") from None


def quieten() -> None:
    """Stop transformers' remarks about configurations in this process: a command's output is its result."""
    try:
        from transformers.utils import logging
    except ImportError:
        return
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]


def model_class(config: Any) -> Any:
    """The transformers class to build: the one the configuration names, else the first head that fits it."""
    import transformers
    from transformers.models.auto import modeling_auto

    for name in config.architectures or ():
        named = getattr(transformers, name, None)
        if named is not None:
            return named
    for mapping in _HEADS:
        known = getattr(modeling_auto, mapping)
        if type(config) in known:
            found = known[type(config)]
            return found[0] if isinstance(found, tuple) else found
    raise SpecError(f"transformers has no model class for a {config.model_type!r} configuration")
