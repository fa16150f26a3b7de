"""Chat with a small Llama: every line of input is a turn, and the answer comes token by token out of a key-value cache.

Written for CUDA; only the device string is another. The model is random, so that nothing is downloaded: put the path
of a real one into `load()`.

    printf 'hello\\nhow are you?\\n' | python chat.py
"""

from __future__ import annotations

import sys

import torch
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.generation.streamers import BaseStreamer

DEVICE = "simacc"
END = 10  # a line ends a turn


def load() -> LlamaForCausalLM:
    """Bytes are the tokens, so that no vocabulary is needed."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=256,
        hidden_size=128,
        intermediate_size=352,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        bos_token_id=None,
        eos_token_id=END,
        pad_token_id=0,
    )
    return LlamaForCausalLM(config).eval()


class Typing(BaseStreamer):
    """Writes each token as it comes; the prompt is not repeated."""

    def __init__(self) -> None:
        self.is_prompt = True

    def put(self, value: torch.Tensor) -> None:
        if self.is_prompt:
            self.is_prompt = False
            return
        text = "".join(chr(token) if 32 <= token < 127 else "." for token in value.flatten().tolist())
        print(text, end="", flush=True)

    def end(self) -> None:
        print()


def main() -> None:
    model = load().to(DEVICE)
    history = torch.empty(1, 0, dtype=torch.long, device=DEVICE)
    for line in sys.stdin:
        turn = torch.tensor([list(line.encode())], device=DEVICE)
        history = torch.cat([history, turn], dim=1)
        history = model.generate(
            history,
            attention_mask=torch.ones_like(history),
            max_new_tokens=16,
            do_sample=False,
            streamer=Typing(),
        )
        print(f"  ({history.shape[1]} tokens so far)")


if __name__ == "__main__":
    main()
