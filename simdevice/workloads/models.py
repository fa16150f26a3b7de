"""Published models without their weights: built on the meta device, asked as a prefill or as one decode step."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from simdevice.errors import SpecError, UnknownNameError
from simdevice.frontends import Workload
from simdevice.frontends.describe import CACHE_OFF
from simdevice.workloads import configurations
from simdevice.workloads.inputs import accepts, for_model, tokens
from simdevice.workloads.tiny_cnn import TinyCnn

__all__ = ["ask", "build", "decode_step", "has_cache", "names", "prefill", "takes_made_inputs", "tokens"]

_OWN = {"tiny-cnn": TinyCnn}

DEFAULT_TOKENS = 2048
"""Prefill length where none is given, or what the model has positions for when that is less."""


def names() -> list[str]:
    """Every model that `build` knows by name."""
    return sorted([*configurations.names(), *_OWN])


def build(
    name: str | None = None,
    *,
    config: str | Path | Mapping[str, Any] | Any = None,
    model_type: str | None = None,
    dtype: str | None = None,
    device: str = "meta",
    **fields: Any,
) -> torch.nn.Module:
    """A model in eval mode: by `name`, or any Hugging Face `config` (a file, a mapping or a configuration
    object), or a `model_type` with its defaults. `fields` replace fields of the configuration.

    On the meta device nothing is allocated; on another one the weights are the library's random ones.
    `dtype` is the configuration's own where it has one, else float32 (bfloat16 for a mixture of experts
    on the meta device).

    Raises:
        UnknownNameError: a name, model type or dtype that doesn't exist.
        FileFormatError: a file that isn't a configuration.
        SpecError: not exactly one of `name`, `config`, `model_type`, or fields that transformers refuses.
    """
    if sum(given is not None for given in (name, config, model_type)) != 1:
        raise SpecError("give exactly one of a model name, config= or model_type=")
    if name in _OWN:
        if fields:
            raise SpecError(f"{name!r} has no configuration, so {next(iter(fields))!r} can't be set")
        with torch.device(device):
            own = _OWN[name]().eval()
        return own.to(_dtype(dtype)) if dtype is not None else own
    if name is not None and name not in configurations.names():
        raise UnknownNameError("model", name, names())
    return _build(_configuration(name, config, model_type, fields), dtype, device)


def _configuration(name: str | None, config: Any, model_type: str | None, fields: dict[str, Any]) -> Any:
    if model_type is not None:
        return configurations.by_type(model_type, **fields)
    if isinstance(config, Mapping):
        merged = {**config, **fields}
        kind = merged.pop("model_type", None)
        if not isinstance(kind, str):
            raise SpecError("expected a 'model_type' in the configuration")
        return configurations.by_type(kind, **merged)
    source = name if name is not None else config
    found = configurations.read(source) if isinstance(source, (str, Path)) else source
    for key, value in fields.items():
        if not hasattr(found, key):
            raise UnknownNameError(f"field of a {found.model_type!r} configuration", key, found.to_dict())
        setattr(found, key, value)
    return found


def _build(config: Any, dtype: str | None, device: str) -> torch.nn.Module:
    own = dtype or config.dtype or _default_dtype(config, device)
    with torch.device(device):
        model: torch.nn.Module = configurations.model_class(config)._from_config(config, dtype=_dtype(own))
    return model.to(device).eval()  # some models make a parameter on the CPU whatever is asked


def _default_dtype(config: Any, device: str) -> str:
    """float32, as PyTorch has it; but the meta kernel of a mixture's grouped product takes bfloat16 only."""
    is_mixture = any("expert" in field for field in config.to_dict())
    return "bfloat16" if is_mixture and device == "meta" else "float32"


def _dtype(name: str | torch.dtype) -> torch.dtype:
    if isinstance(name, torch.dtype):
        return name
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype):
        floats = [n for n in dir(torch) if isinstance(getattr(torch, n), torch.dtype) and "float" in n]
        raise UnknownNameError("dtype", name, floats)
    return found


def takes_made_inputs(model: Any) -> bool:
    """Whether `prefill` can make this model's inputs."""
    return isinstance(model, TinyCnn) or (hasattr(model, "config") and hasattr(model, "main_input_name"))


def ask(
    model: torch.nn.Module,
    *,
    tokens: int | None = None,
    decode: int | None = None,
    batch: int = 1,
    cache: bool | None = None,
    name: str = "",
) -> Workload:
    """A model with inputs made for it: one decode step after `decode` tokens, else a prefill of `tokens`, which fills a
    key-value cache (`cache`: on where the model has one) or not.

    Raises:
        SpecError: more tokens than the model has positions for, or a cache asked for that isn't there or is needed.
    """
    if cache is not None and not has_cache(model):
        raise SpecError(f"{name or type(model).__name__} has no key-value cache to switch on or off")
    if cache is False and decode is not None:
        raise SpecError("a decode step reads its key-value cache: it can't be off")
    if tokens is not None and decode is not None:
        raise SpecError("give tokens for a prefill or decode for a decode step, not both")
    room, asked = _positions(model), tokens if decode is None else decode + 1
    if room is not None and asked is not None and asked > room:
        raise SpecError(f"{name or type(model).__name__} has {room:,} learned positions, too few for {asked:,} tokens")
    if decode is not None:
        return decode_step(model, decode, batch=batch, name=name)
    return prefill(model, tokens if tokens is not None else _default(model), batch=batch, cache=cache, name=name)


def _positions(model: torch.nn.Module) -> int | None:
    """Rows of a learned position table, which a longer input would run past (on meta without an error)."""
    tables = (m for n, m in model.named_modules() if n.rpartition(".")[2] in ("position_embeddings", "wpe"))
    return min((t.num_embeddings for t in tables if isinstance(t, torch.nn.Embedding)), default=None)


def _default(model: torch.nn.Module) -> int:
    config = getattr(model, "config", None)
    limits = [getattr(config, field, None) for field in ("max_position_embeddings", "n_positions")]
    return min([DEFAULT_TOKENS, *(limit for limit in limits if isinstance(limit, int) and limit > 0)])


def prefill(
    model: torch.nn.Module, length: int, *, batch: int = 1, cache: bool | None = None, name: str = ""
) -> Workload:
    """One forward pass over `length` tokens per sequence (or over one picture or sound per item).

    The key-value cache is on unless `cache` is False: with it off, transformers reads a computed number back, which the
    meta device can't, so stand-ins of a CPU's tensors run.
    """
    if isinstance(model, TinyCnn):
        images = torch.zeros(batch, 3, 32, 32, device=next(model.parameters()).device)
        return Workload(model, (images,), name=name, description=f"{batch} image{'s' if batch > 1 else ''}")
    kwargs: dict[str, Any] = dict(for_model(model, batch=batch, length=length))
    path = ""
    if has_cache(model):
        kwargs["use_cache"] = cache is not False
        path = "key-value cache on" if kwargs["use_cache"] else CACHE_OFF
    shown = f"{length} tokens" if "input_ids" in kwargs else next(iter(kwargs))
    on_meta = next(model.parameters()).device.type == "meta"
    said = f"prefill, {shown}, batch {batch}"
    return Workload(model, (), kwargs, name, said, path, stand_ins=path == CACHE_OFF and on_meta)


def decode_step(model: torch.nn.Module, context: int, *, batch: int = 1, name: str = "") -> Workload:
    """One token after a context of `context` tokens, whose prompt runs outside the trace and fills the cache.

    Raises:
        SpecError: a model that doesn't generate text token by token.
    """
    if not _generates(model) or getattr(model.config, "is_encoder_decoder", False) or not accepts(model, "input_ids"):
        raise SpecError(f"{type(model).__name__} is no decoder of tokens: decode has no meaning for it")
    prompt = {"input_ids": tokens(batch, context, device=next(model.parameters()).device), "use_cache": True}

    def fill_cache(workload: Workload) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
        output = workload.program(**workload.kwargs)
        ids = workload.kwargs["input_ids"][:, :1].clone()
        return (), {"input_ids": ids, "use_cache": True, **_cache(model, output)}

    path = "key-value cache filled by an untraced prompt"
    return Workload(model, (), prompt, name, f"decode, context {context}, batch {batch}", path, fill_cache)


def has_cache(model: torch.nn.Module) -> bool:
    """Whether a forward pass can fill a key-value cache."""
    return accepts(model, "use_cache") and _generates(model)


def _generates(model: torch.nn.Module) -> bool:
    can = getattr(model, "can_generate", None)
    return bool(can is not None and can())


def _cache(model: torch.nn.Module, output: Any) -> dict[str, Any]:
    """The filled cache under the argument name that this model and this transformers take."""
    for given, taken in (("cache", "cache"), ("past_key_values", "past_key_values"), ("cache_params", "cache_params")):
        if accepts(model, taken) and given in output:
            return {taken: output[given]}
    raise SpecError(f"{type(model).__name__} gives no cache that its next call would take")
