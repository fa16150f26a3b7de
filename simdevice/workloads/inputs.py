"""Example inputs for a model, from its configuration: tokens, pictures or sound of the right shape."""

from __future__ import annotations

import inspect
from typing import Any

import torch

from simdevice.errors import SpecError

__all__ = ["accepts", "for_model", "tokens"]


def tokens(batch: int, length: int, *, device: str | torch.device = "meta") -> torch.Tensor:
    """Token ids of shape (batch, length); all zero where there is data.

    Raises:
        SpecError: a batch or a length below 1.
    """
    for name, value in (("batch", batch), ("length", length)):
        if not isinstance(value, int) or value < 1:
            raise SpecError(f"expected a {name} of at least 1, got {value!r}")
    return torch.zeros(batch, length, dtype=torch.int64, device=device)


def accepts(model: torch.nn.Module, name: str) -> bool:
    """Whether the model's forward has this argument."""
    return name in inspect.signature(model.forward).parameters


def for_model(model: torch.nn.Module, *, batch: int = 1, length: int = 128) -> dict[str, torch.Tensor]:
    """Keyword inputs for a transformers model, on its device and of its type.

    `length` is in tokens; what is no text has the size its configuration says.

    Raises:
        SpecError: a model whose main input is of a kind not known here.
    """
    main = getattr(model, "main_input_name", None)
    config: Any = getattr(model, "config", None)
    if main is None or config is None:
        raise SpecError(
            f"{type(model).__name__} is no transformers model: give its inputs, or a function that returns them"
        )
    first = next(model.parameters())
    text = tokens(batch, length, device=first.device)

    def like(*shape: int) -> torch.Tensor:
        return torch.zeros(shape, dtype=first.dtype, device=first.device)

    made: dict[str, torch.Tensor] = {}
    two_towers = hasattr(config, "text_config") and hasattr(config, "vision_config")
    if main == "input_ids" or (two_towers and accepts(model, "input_ids")):
        made["input_ids"] = text
    if main == "pixel_values" or (two_towers and accepts(model, "pixel_values")):
        made["pixel_values"] = like(batch, *_picture(config.vision_config if two_towers else config))
    elif main == "input_features":
        made["input_features"] = like(batch, *_spectrogram(config, length))
    elif main == "input_values":
        made["input_values"] = like(batch, *_sound(config, length))
    elif not made:
        raise SpecError(
            f"the main input of {type(model).__name__} is {main!r}: give its inputs, or a function that returns them"
        )
    if getattr(config, "is_encoder_decoder", False) and accepts(model, "decoder_input_ids"):
        made["decoder_input_ids"] = text
    return made


def _picture(config: Any) -> tuple[int, int, int]:
    """(channels, height, width); 224 x 224 where the configuration leaves the size open."""
    size = getattr(config, "image_size", None) or 224
    height, width = size if isinstance(size, (list, tuple)) else (size, size)
    return getattr(config, "num_channels", 3), height, width


def _spectrogram(config: Any, length: int) -> tuple[int, int]:
    """Whisper-like models fix (mel bins, 2 frames per position); others take (frames, bins)."""
    if hasattr(config, "num_mel_bins") and hasattr(config, "max_source_positions"):
        return config.num_mel_bins, 2 * config.max_source_positions
    for name in ("feature_projection_input_dim", "num_mel_bins", "input_feat_per_channel"):
        if hasattr(config, name):
            return length, getattr(config, name)
    raise SpecError(f"a {config.model_type!r} configuration doesn't say how many features a frame has")


def _sound(config: Any, length: int) -> tuple[int, ...]:
    """Samples (one token per 320 of them at 16 kHz, as wav2vec 2.0 strides), or (frames, mel bins)."""
    if hasattr(config, "num_mel_bins") and hasattr(config, "max_length"):
        return config.max_length, config.num_mel_bins
    return (320 * length + 80,)
