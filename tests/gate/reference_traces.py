"""The traces whose arithmetic is pinned. `python tests/gate/reference_traces.py` pins them anew."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import simdevice as sd
from simdevice.analysis.gate import pin
from simdevice.records import Trace

PINS = Path(__file__).with_name("pins.json")

SMALL: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 256,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def small_llama(frontend: str) -> Callable[[], Trace]:
    return lambda: sd.trace(sd.models.build(model_type="llama", **SMALL), sd.models.tokens(1, 12), frontend=frontend)


def shipped(package: str, file: str, **dims: int) -> Callable[[], Trace]:
    def trace() -> Trace:
        found = importlib.util.find_spec(package)
        assert found is not None
        assert found.origin is not None
        return sd.trace(str(Path(found.origin).parent / file), dims=dims)

    return trace


REFERENCES: dict[str, Callable[[], Trace]] = {
    **{f"{name} prefill": lambda name=name: sd.trace(name, tokens=2048) for name in ("llama3-8b", "mistral-7b")},
    "gpt2 prefill": lambda: sd.trace("gpt2", tokens=1024),
    "qwen2.5-0.5b prefill": lambda: sd.trace("qwen2.5-0.5b", tokens=2048),
    "llama3-8b prefill, fake CPU": lambda: sd.trace("llama3-8b", tokens=2048, attention="fused"),
    "llama3-8b decode, fake CPU": lambda: sd.trace("llama3-8b", decode=2048, attention="fused"),
    **{f"small llama by {frontend}": small_llama(frontend) for frontend in ("dispatch", "export", "compile", "onnx")},
    **{
        f"tiny-cnn by {frontend}": lambda frontend=frontend: sd.trace("tiny-cnn", frontend=frontend)
        for frontend in ("dispatch", "export", "compile", "onnx")
    },
    "magika": shipped("magika", "models/standard_v3_3/model.onnx", unk__214=1),
    "swift_f0": shipped("swift_f0", "model.onnx", samples=16000),
    "light_resnet50": shipped("onnx", "backend/test/data/light/light_resnet50.onnx"),
}


def pins() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(PINS.read_text(encoding="utf-8"))
    return found


if __name__ == "__main__":
    made = {name: pin(trace()) for name, trace in REFERENCES.items()}
    PINS.write_text(json.dumps(made, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    print(f"{len(made)} traces pinned in {PINS}", file=sys.stderr)
