"""transformers with `import simdevice.integrations.transformers`: a Trainer's parameters are the CPU's, bit for bit."""

from __future__ import annotations

import pytest

MODEL = """
import os, sys, tempfile
import torch
import transformers
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments
transformers.logging.set_verbosity_error()
torch.set_num_threads(1)

def model(dropout=0.0):
    torch.manual_seed(0)
    return BertForSequenceClassification(BertConfig(
        vocab_size=64, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=16, hidden_dropout_prob=dropout, attention_probs_dropout_prob=0.0,
    ))

drawn = torch.Generator().manual_seed(0)
DATA = [{"input_ids": torch.randint(64, (8,), generator=drawn), "labels": torch.randint(2, (), generator=drawn)}
        for _ in range(12)]

def trainer(dropout=0.0, **options):
    arguments = TrainingArguments(output_dir="out", max_steps=4, per_device_train_batch_size=3, report_to=[], seed=1,
        disable_tqdm=True, logging_strategy="no", **({"save_strategy": "no"} | options))
    return Trainer(model=model(dropout), args=arguments, train_dataset=DATA, eval_dataset=DATA)

def parameters(trainer):
    return torch.cat([p.detach().cpu().float().flatten() for p in trainer.model.parameters()])
"""
SAME = {
    "plain": {},
    "accumulation": {"gradient_accumulation_steps": 2},
    "checkpointing": {"gradient_checkpointing": True},
    "sgd": {"optim": "sgd"},
    "fused": {"optim": "adamw_torch_fused"},
    "adafactor": {"optim": "adafactor"},
    "eval": {"eval_strategy": "steps", "eval_steps": 2, "per_device_eval_batch_size": 3},
    "smoothing": {"label_smoothing_factor": 0.1},
    "workers": {"dataloader_num_workers": 1},
    "clipping": {"max_grad_norm": 0.01},
    "compiled": {"torch_compile": True},
    "saving": {"save_strategy": "steps", "save_steps": 2},
}
RUNS = (
    MODEL
    + f"""
results = {{}}
for name, options in {SAME!r}.items():
    if name == "compiled" and sys.argv[0] and not SIMACC:
        options = {{}}  # Inductor compiles for the CPU: what the operators give is the uncompiled program's
    trained = trainer(**options)
    trained.train()
    results[name] = parameters(trained)
    print(name, trained.args.device, trained.model.device, trained.args.n_gpu, trained.evaluate()["eval_loss"])
torch.save(results, "results.pt")
"""
)


@pytest.mark.slow
def test_a_trainers_parameters_are_the_cpus(program, tmp_path):
    import torch

    on_cpu = program("SIMACC = False\n" + RUNS, autoload=False)
    expected = torch.load(tmp_path / "results.pt")
    on_simacc = program("SIMACC = True\nimport simdevice.integrations.transformers\n" + RUNS)
    results = torch.load(tmp_path / "results.pt")
    assert [line.split()[:4] for line in on_cpu if line.split()[0] in SAME] == [
        [name, "cpu", "cpu", "0"] for name in SAME
    ]
    placed = [line.split()[:4] for line in on_simacc if line.split()[0] in SAME]
    assert placed == [[name, "simacc:0", "simacc:0", "1"] for name in SAME]
    losses = [[line.split()[4] for line in said if line.split()[0] in SAME] for said in (on_cpu, on_simacc)]
    assert losses[0] == losses[1]
    assert {name: torch.equal(results[name], expected[name]) for name in SAME} == dict.fromkeys(SAME, True)


@pytest.mark.slow
def test_mixed_precision_resuming_with_dropout_and_the_cpu_on_request(program):
    said = program(
        "import simdevice.integrations.transformers as integration\n"
        + MODEL
        + """
for name in ("bf16", "fp16"):
    with torch.simacc.record(scopes=False) as rec:
        trained = trainer(**{name: True})
        trained.train()
    dtypes = {ref.dtype for op in rec.trace.ops if op.name == "aten.addmm" for ref in op.inputs}
    print(name, trained.model.device, sorted(dtypes), trained.accelerator.scaler is not None)

whole = trainer(dropout=0.25, save_strategy="steps", save_steps=2)
whole.train()
again = trainer(dropout=0.25, save_strategy="no")
torch.rand(5, device="simacc")
again.train(resume_from_checkpoint="out/checkpoint-2")
print(torch.equal(parameters(whole), parameters(again)))
print(trainer(use_cpu=True).args.device)
integration.undo()
integration.accelerate.undo()
print(trainer().args.device)
"""
    )
    assert [line for line in said if not line.startswith("{")] == [
        "bf16 simacc:0 ['bfloat16'] False",
        "fp16 simacc:0 ['float16'] True",
        "True",
        "cpu",
        "cpu",
    ]


@pytest.mark.slow
def test_pipelines_and_device_maps(program):
    said = program(
        """
import simdevice.integrations.transformers as integration
import torch, transformers
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (AutoModelForCausalLM, BertConfig, BertForSequenceClassification, LlamaConfig,
    LlamaForCausalLM, PreTrainedTokenizerFast, pipeline)
transformers.logging.set_verbosity_error()
torch.manual_seed(0)
vocabulary = {word: i for i, word in enumerate(["[UNK]", "[PAD]", *"abcdefgh"])}
words = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
words.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]", pad_token="[PAD]")
sizes = dict(vocab_size=10, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32)
classifier = BertForSequenceClassification(BertConfig(**sizes)).eval()
for device in (None, 0, "simacc", torch.device("simacc", 0), -1, "cpu"):
    pipe = pipeline("text-classification", model=classifier.cpu(), tokenizer=tokenizer, device=device)
    print(device, classifier.device, round(pipe("a b c")[0]["score"], 6))

options = dict(pad_token_id=1, bos_token_id=2, eos_token_id=None, max_position_embeddings=32)
llama = LlamaForCausalLM(LlamaConfig(**sizes, **options)).eval()
llama.save_pretrained("llama")
tokenizer.save_pretrained("llama")
tokens = torch.tensor([[5, 6]])
expected = llama.generate(tokens, max_new_tokens=3, do_sample=False)
parts = {"model.embed_tokens": 0, "model.layers.0": 0, "model.layers.1": "cpu", "model.norm": 0, "lm_head": 0,
         "model.rotary_emb": 0}
for device_map in ("auto", "simacc", {"": 0}, parts):
    loaded = AutoModelForCausalLM.from_pretrained("llama", device_map=device_map)
    same = torch.equal(loaded.generate(tokens.to(loaded.device), max_new_tokens=3, do_sample=False).cpu(), expected)
    print(loaded.device, same)
print(pipeline("text-generation", model="llama", device_map="auto").device)
integration.undo()
print(pipeline("text-classification", model=classifier.cpu(), tokenizer=tokenizer, device=0).device)
"""
    )
    score = said[0].split()[-1]
    assert said == [
        *[f"{device} simacc:0 {score}" for device in ("None", "0", "simacc", "simacc:0")],
        *[f"{device} cpu {score}" for device in ("-1", "cpu")],
        *["simacc:0 True"] * 4,
        "simacc:0",
        "cpu",
    ]
