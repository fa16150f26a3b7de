"""Closed forms and published figures (Torch_Sim_Frontend, README and examples/results.md) against traces."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import simdevice as sd
from simdevice.errors import CaptureError, FileFormatError, SpecError, UnknownNameError
from simdevice.workloads.sources import source

TOKENS = 2048


def matmul_parameters(model: torch.nn.Module) -> int:
    """Parameters that multiply every token: matrices, without the embedding (a look-up) unless it is also the head."""
    config: Any = model.config
    matrices = sum(p.numel() for name, p in model.named_parameters() if p.dim() == 2 and "embed_tokens" not in name)
    return matrices + (config.vocab_size * config.hidden_size if config.tie_word_embeddings else 0)


def attention_flops(config: Any, queries: int, keys: int) -> int:
    """QK^T and AV unmasked: 2 products of 2 FLOPs per multiply-add in every layer."""
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return 4 * config.num_hidden_layers * config.num_attention_heads * head * queries * keys


# parameters, matmul FLOPs and weight bytes of a 2,048-token prefill in bfloat16 on the meta device
PREFILLS = {
    # 2 x 7,504,658,432 x 2,048 + 4 x 32 x 4,096 x 2,048^2
    "llama3-8b": (8_030_261_248, 32_938_104_193_024, 15_026_626_560),
    # 2 x 69,501,714,432 x 2,048 + 4 x 80 x 8,192 x 2,048^2
    "llama3-70b": (70_553_706_496, 295_674_138_591_232, 139_039_621_120),
    # 2 x 7,110,393,856 x 2,048 + 4 x 32 x 4,096 x 2,048^2
    "mistral-7b": (7_241_732_096, 31_323_196_489_728, 14_238_097_408),
}


@pytest.mark.parametrize("name", PREFILLS)
def test_a_prefill_on_meta_is_the_closed_form_exactly(name: str) -> None:
    parameters, flops, weights = PREFILLS[name]
    model = sd.models.build(name)
    assert sum(p.numel() for p in model.parameters()) == parameters
    assert flops == 2 * matmul_parameters(model) * TOKENS + attention_flops(model.config, TOKENS, TOKENS)
    trace = sd.trace(model, sd.models.tokens(1, TOKENS), flop_counter=True)
    assert trace.matmul_flops == flops
    assert trace.origin.flop_counter == flops
    assert trace.weight_bytes == weights
    assert trace.unknown() == {}


def test_qwen_prefill_is_the_closed_form_and_its_biases() -> None:
    model = sd.models.build("qwen2.5-0.5b")
    config: Any = model.config
    trace = sd.trace(model, sd.models.tokens(1, TOKENS), flop_counter=True)
    products = 2 * matmul_parameters(model) * TOKENS + attention_flops(config, TOKENS, TOKENS)
    # q, k and v of each layer add a bias per output: 896 + 2 x 128 outputs
    biases = config.num_hidden_layers * TOKENS * (896 + 2 * 128)
    assert trace.matmul_flops == products + biases == 2_384_099_016_704
    assert trace.origin.flop_counter == products
    assert trace.weight_bytes == 991_735_552


def test_gpt2_prefill_is_the_closed_form_and_its_biases() -> None:
    model = sd.models.build("gpt2")
    trace = sd.trace(model, sd.models.tokens(1, TOKENS), flop_counter=True)
    d, layers, vocabulary = 768, 12, 50257
    # per layer 3d^2 + d^2 + 4d^2 + 4d^2, and the tied head; attention; a bias per output of each projection
    products = 2 * (layers * 12 * d * d + vocabulary * d) * TOKENS + 4 * layers * d * TOKENS**2
    biases = layers * (3 * d + d + 4 * d + d) * TOKENS
    assert trace.origin.flop_counter == products
    assert trace.matmul_flops == products + biases


def test_the_published_stream_differs_from_todays_by_the_rotary_product_only() -> None:
    """Published with transformers 5.18: 3,557 operators and 32,938,104,455,168 FLOPs, of which the rotary
    frequencies were a product of 262,144 (2 x 64 x 2,048). Today that is an elementwise product."""
    trace = sd.trace("llama3-8b", tokens=TOKENS)
    assert 32_938_104_455_168 - trace.matmul_flops == 2 * 64 * TOKENS
    assert round(trace.flops / 1e12, 2) == 32.97
    assert round(trace.bytes / 1e9, 2) == 214.35
    products = "attention as matrix products and softmax"
    assert trace.origin.path == f"key-value cache on, {products}, explicit mask, repeated keys"


def test_a_prefill_under_fake_cpu_tensors_has_one_attention_operator_per_layer() -> None:
    trace = sd.trace("llama3-8b", tokens=TOKENS, attention="fused", flop_counter=True)
    attention = [op for op in trace.ops if op.category == "attention"]
    assert [op.name for op in attention] == ["aten._scaled_dot_product_flash_attention_for_cpu"] * 32
    # 32 layers x 32 heads x 2,048^2 scores, 4 x 128 + 5 FLOPs for each
    assert trace.flops_in("attention") == 2_220_498_092_032
    assert trace.matmul_flops == 30_739_080_937_472
    # FlopCounterMode has no formula for the CPU's fused attention: it is lower by exactly that
    assert trace.origin.flop_counter == trace.matmul_flops
    assert trace.weight_bytes == 15_026_626_560
    assert trace.origin.device == "cpu (no data)"
    assert "fused attention" in trace.origin.path


@pytest.mark.parametrize(("attention", "gigabytes"), [(None, 25.02), ("fused", 15.84)])
def test_a_decode_step_reads_every_weight_once_and_attends_to_itself(attention: str | None, gigabytes: float) -> None:
    trace = sd.trace("llama3-8b", decode=TOKENS, attention=attention)
    config: Any = sd.models.build("llama3-8b").config
    products = trace.matmul_flops + sum(op.flops or 0 for op in trace.ops if op.category == "attention")
    closed_form = 16_083_058_688 + 4 * 32 * 4096  # the published form, and the token's attention to itself
    softmax = 5 * 32 * 32 * (TOKENS + 1) if attention else 0  # inside the fused operator
    assert closed_form == 2 * 7_504_658_432 + attention_flops(config, 1, TOKENS + 1)
    assert products == closed_form + softmax
    assert trace.weight_bytes == 15_009_857_536
    assert round(trace.bytes / 1e9, 2) == gigabytes


def test_repeated_heads_and_the_cache_append_are_seen_in_a_decode_step_on_meta() -> None:
    trace = sd.trace("llama3-8b", decode=TOKENS)
    moved = {name: sum(op.bytes for op in trace.ops if op.name == name) for name in ("aten.clone", "aten.cat")}
    assert round(moved["aten.clone"] / 1e9, 2) == 4.30
    assert round(moved["aten.cat"] / 1e9, 2) == 0.54


def test_seventy_billion_parameters_need_under_two_gigabytes() -> None:
    """In a process of its own: the peak of this one belongs to every test that ran in it."""
    program = """
import resource, simdevice
print(len(simdevice.trace("llama3-70b", tokens=2048)), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    operators, peak_bytes = map(int, done.stdout.split())
    assert operators > 8_000
    assert peak_bytes < 2_000_000_000


@settings(max_examples=25)
@given(
    layers=st.integers(1, 3),
    kv_heads=st.sampled_from([1, 2, 4]),
    groups=st.integers(1, 3),
    head=st.sampled_from([8, 16, 32]),
    ffn=st.integers(1, 100),
    vocabulary=st.integers(8, 500),
    tied=st.booleans(),
    batch=st.integers(1, 3),
    length=st.integers(2, 70),
)
def test_any_llama_shape_satisfies_the_closed_form(
    layers: int, kv_heads: int, groups: int, head: int, ffn: int, vocabulary: int, tied: bool, batch: int, length: int
) -> None:
    heads = kv_heads * groups
    model = sd.models.build(
        model_type="llama",
        hidden_size=heads * head,
        head_dim=head,
        intermediate_size=ffn,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        vocab_size=vocabulary,
        tie_word_embeddings=tied,
        bos_token_id=0,
        eos_token_id=1,
        dtype="bfloat16",
    )
    trace = sd.trace(model, sd.models.tokens(batch, length), scopes=False, flop_counter=True)
    expected = batch * (2 * matmul_parameters(model) * length + attention_flops(model.config, length, length))
    assert trace.matmul_flops == trace.origin.flop_counter == expected
    norms = (2 * layers + 1) * heads * head
    looked_up = batch * length * heads * head  # one row of the embedding per token
    assert trace.weight_bytes == 2 * (matmul_parameters(model) + norms + looked_up)


def test_tiny_cnn_has_the_published_multiply_adds() -> None:
    trace = sd.trace("tiny-cnn", strict=True, flop_counter=True)
    # 9x3x16 x 32^2 + 9x16x32 x 16^2 + 9x32x64 x 8^2 + 64x10 = 2,802,304 multiply-adds
    assert trace.origin.flop_counter == 2 * 2_802_304
    # and a bias per output: 16 x 32^2 + 32 x 16^2 + 64 x 8^2 + 10
    assert trace.flops_in("matmul", "convolution") == 2 * 2_802_304 + 28_682


SMALL = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 256,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 2,
}
GROUPED = {**SMALL, "num_key_value_heads": 2}
PICTURE = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "image_size": 32,
    "patch_size": 8,
}
TWO_STACKS = {
    "d_model": 64,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 128,
    "decoder_ffn_dim": 128,
    "vocab_size": 256,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 2,
    "decoder_start_token_id": 0,
}
SPEECH = {**SMALL, "conv_dim": [32] * 7, "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4}
STATE_SPACE = {"hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 256, "state_size": 8}

ARCHITECTURES: dict[str, dict[str, Any]] = {
    # encoders
    "albert": {**SMALL, "embedding_size": 32},
    "bert": SMALL,
    "deberta-v2": SMALL,
    "distilbert": {"dim": 64, "hidden_dim": 128, "n_layers": 2, "n_heads": 4, "vocab_size": 256},
    "electra": {**SMALL, "embedding_size": 32},
    "modernbert": {**SMALL, "cls_token_id": 1, "sep_token_id": 2},
    "roberta": SMALL,
    # decoders
    "bloom": {"hidden_size": 64, "n_layer": 2, "n_head": 4, "vocab_size": 256},
    "cohere": GROUPED,
    "falcon": {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 256},
    "gemma2": {**GROUPED, "head_dim": 16},
    "gpt2": {"n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 256, "bos_token_id": 0, "eos_token_id": 1},
    "gpt_neox": SMALL,
    "llama": GROUPED,
    "opt": {**SMALL, "ffn_dim": 128, "word_embed_proj_dim": 64},
    "phi3": GROUPED,
    "qwen3": {**GROUPED, "head_dim": 16},
    # encoder-decoders
    "bart": TWO_STACKS,
    "marian": TWO_STACKS,
    "t5": {"d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4, "vocab_size": 256},
    # vision
    "beit": PICTURE,
    "clip": {"text_config": SMALL, "vision_config": PICTURE},
    "convnext": {"image_size": 32, "hidden_sizes": [16, 32, 32, 32], "depths": [1, 1, 1, 1]},
    "dinov2": PICTURE,
    "mobilenet_v2": {"image_size": 32, "depth_multiplier": 0.25},
    "resnet": {"hidden_sizes": [16, 32], "depths": [1, 1], "embedding_size": 16},
    "segformer": {"image_size": 32},
    "swin": {
        "image_size": 32,
        "patch_size": 4,
        "embed_dim": 16,
        "depths": [1, 1],
        "num_heads": [2, 2],
        "window_size": 4,
    },
    "vit": PICTURE,
    # speech
    "audio-spectrogram-transformer": {**PICTURE, "max_length": 64, "num_mel_bins": 32},
    "hubert": SPEECH,
    "wav2vec2": SPEECH,
    "whisper": {**TWO_STACKS, "num_mel_bins": 16, "max_source_positions": 50},
    # mixtures of experts
    "deepseek_v3": {
        **SMALL,
        "num_key_value_heads": 4,
        "n_routed_experts": 8,
        "n_group": 2,
        "topk_group": 1,
        "moe_intermediate_size": 32,
        "num_experts_per_tok": 2,
        "first_k_dense_replace": 1,
        "q_lora_rank": 16,
        "kv_lora_rank": 16,
        "qk_rope_head_dim": 8,
        "v_head_dim": 16,
        "qk_nope_head_dim": 16,
    },
    "gpt_oss": {**GROUPED, "num_local_experts": 4, "head_dim": 16},
    "mixtral": {**GROUPED, "num_local_experts": 4},
    "qwen3_moe": {
        **GROUPED,
        "num_experts": 8,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 32,
        "head_dim": 16,
    },
    # state space and other recurrences
    "jamba": {**GROUPED, "num_experts": 4, "num_hidden_layers": 4, "attn_layer_period": 2, "attn_layer_offset": 1},
    "mamba": STATE_SPACE,
    "mamba2": {**STATE_SPACE, "num_heads": 8, "head_dim": 16, "n_groups": 2},
    "recurrent_gemma": {**SMALL, "num_hidden_layers": 3, "lru_width": 64},
    "rwkv": {"hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 256, "attention_hidden_size": 64},
}

NEEDS_NUMBERS = {
    "bart": "its decoder makes a mask and asks whether all of it is set",
    "deberta-v2": "it looks for padding in the token ids",
    "marian": "its decoder makes a mask and asks whether all of it is set",
}
"""Architectures whose Python reads a computed number, so that only fake CPU tensors can follow."""


@pytest.mark.parametrize("model_type", ARCHITECTURES)
@pytest.mark.parametrize("attention", [None, "fused"])
@pytest.mark.filterwarnings(
    "ignore:`torch.jit.script` is deprecated:DeprecationWarning"
)  # deberta-v2 of transformers 5.20
def test_every_architecture_traces_with_a_rule_for_nearly_all_it_does(model_type: str, attention: str | None) -> None:
    model = sd.models.build(model_type=model_type, **ARCHITECTURES[model_type])
    if attention is None and model_type in NEEDS_NUMBERS:
        with pytest.raises(
            CaptureError, match=r"^this program can't run on the meta device \(.*\): try attention='fused'$"
        ):
            sd.trace(model, tokens=24)
        return
    trace = sd.trace(model, tokens=24, attention=attention)
    unknown = sum(op.bytes for op in trace.ops if op.category == "unknown")
    assert unknown <= 0.001 * trace.bytes, trace.unknown()
    assert trace.flops > 0
    assert trace.weight_bytes > 0


def test_at_least_thirty_architectures_are_tried() -> None:
    assert len(ARCHITECTURES) >= 30


def test_a_mixture_of_experts_costs_the_experts_it_asks() -> None:
    model = sd.models.build(model_type="mixtral", **ARCHITECTURES["mixtral"])
    trace = sd.trace(model, tokens=24)
    grouped = [op for op in trace.ops if "grouped_mm" in op.name]
    # 2 layers; 24 tokens to 2 experts each; gate and up (64 to 2 x 128), then down (128 to 64)
    assert [op.flops for op in grouped] == [2 * 48 * 64 * 256, 2 * 48 * 128 * 64] * 2


def test_a_decoded_token_reads_only_the_experts_it_asks() -> None:
    model = sd.models.build(model_type="mixtral", **ARCHITECTURES["mixtral"])
    read = {
        request: [op.cost.weight_bytes for op in sd.trace(model, **request_).ops if "grouped_mm" in op.name]
        for request, request_ in (("prefill", {"tokens": 24}), ("decode", {"decode": 24}))
    }
    # 4 experts of 64 x 256 and 128 x 64 in bfloat16; one token asks 2 of them
    assert read["prefill"] == [4 * 64 * 256 * 2, 4 * 128 * 64 * 2] * 2
    assert read["decode"] == [2 * 64 * 256 * 2, 2 * 128 * 64 * 2] * 2


def test_a_mixture_routes_for_real_when_run_live() -> None:
    torch.manual_seed(0)
    model = sd.models.build(model_type="mixtral", **ARCHITECTURES["mixtral"], device="cpu")
    ids = torch.randint(0, 256, (1, 24), generator=torch.Generator().manual_seed(0))
    trace = sd.trace(model, ids)
    assert [op.flops for op in trace.ops if "grouped_mm" in op.name] == [2 * 48 * 64 * 256, 2 * 48 * 128 * 64] * 2


def test_a_state_space_model_decodes_too() -> None:
    model = sd.models.build(model_type="mamba", **STATE_SPACE)
    assert 0 < len(sd.trace(model, decode=24)) < len(sd.trace(model, tokens=24))


def test_a_configuration_file_builds_what_its_fields_say(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"model_type": "qwen2", "dtype": "float16", **GROUPED}))
    model = sd.models.build(config=path, num_hidden_layers=1)
    assert type(model).__name__ == "Qwen2ForCausalLM"
    assert {p.dtype for p in model.parameters()} == {torch.float16}
    assert sum("layers.0.mlp.up_proj" in name for name, _ in model.named_parameters()) == 1
    assert all(p.device.type == "meta" for p in model.parameters())


def test_names_lists_what_builds() -> None:
    assert sd.models.names() == ["gpt2", "llama3-70b", "llama3-8b", "mistral-7b", "qwen2.5-0.5b", "tiny-cnn"]


def test_a_name_with_dots_is_a_name_and_no_file() -> None:
    assert source("qwen2.5-0.5b", options={"tokens": 4}).workload().name == "qwen2.5-0.5b"
    with pytest.raises(UnknownNameError, match=r"^unknown model 'qwen2.5-0.5': did you mean 'qwen2.5-0.5b'\?$"):
        source("qwen2.5-0.5").workload()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"name": "llama-8b"}, UnknownNameError, r"unknown model 'llama-8b': did you mean 'llama3-8b'\?"),
        ({"model_type": "lama"}, UnknownNameError, r"unknown model type 'lama': did you mean 'llama'\?"),
        ({}, SpecError, "give exactly one of a model name, config= or model_type="),
        ({"name": "gpt2", "model_type": "gpt2"}, SpecError, "give exactly one of .*"),
        ({"name": "gpt2", "dtype": "float61"}, UnknownNameError, r"unknown dtype 'float61': did you mean 'float64'\?"),
        ({"name": "gpt2", "n_layers": 2}, UnknownNameError, "unknown field of a 'gpt2' configuration 'n_layers'.*"),
        ({"name": "tiny-cnn", "layers": 2}, SpecError, "'tiny-cnn' has no configuration, so 'layers' can't be set"),
        ({"config": {"hidden_size": 3}}, SpecError, "expected a 'model_type' in the configuration"),
        ({"config": "none.json"}, FileFormatError, "cannot read none.json: No such file or directory"),
    ],
)
def test_what_cannot_be_built_is_one_line(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"^{message}$"):
        sd.models.build(**arguments)


@pytest.mark.parametrize("text", ["{", "[]", '{"hidden_size": 3}', '{"model_type": "lama"}'])
def test_a_damaged_configuration_file_is_named(text: str, tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text(text)
    with pytest.raises((FileFormatError, UnknownNameError), match=r"^[^\n]*$"):
        sd.models.build(config=path)


@pytest.mark.parametrize(("batch", "length"), [(0, 5), (1, 0), (1, -3)])
def test_tokens_must_be_some(batch: int, length: int) -> None:
    with pytest.raises(SpecError, match=r"^expected a (batch|length) of at least 1, got "):
        sd.models.tokens(batch, length)


def test_decode_is_for_decoders() -> None:
    with pytest.raises(SpecError, match=r"^BertForMaskedLM is no decoder of tokens: decode has no meaning for it$"):
        sd.trace(sd.models.build(model_type="bert", **SMALL), decode=8)
