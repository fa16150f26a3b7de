"""Twenty steps of training on simacc end with the parameters of the same program on the CPU, bit for bit."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn.utils import rnn

F = nn.functional
STEPS = 20
OPTIMIZERS = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=0.01),
    "SGD foreach": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True, foreach=True),
    "SGD fused": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, fused=True),
    "Adam": lambda p: torch.optim.Adam(p, lr=0.01, foreach=False),
    "Adam foreach": lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True, foreach=True),
    "Adam fused": lambda p: torch.optim.Adam(p, lr=0.01, fused=True),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=0.01, foreach=False),
    "AdamW foreach": lambda p: torch.optim.AdamW(p, lr=0.01, foreach=True),
    "AdamW fused": lambda p: torch.optim.AdamW(p, lr=0.01, fused=True),
}


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Block(nn.Module):
    """A residual block that halves the picture and doubles the channels."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, 2 * channels, 3, stride=2, padding=1, bias=False)
        self.second = nn.Conv2d(2 * channels, 2 * channels, 3, padding=1, bias=False)
        self.shortcut = nn.Conv2d(channels, 2 * channels, 1, stride=2, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(2 * channels) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.norms[0](self.first(x)))
        return F.relu(self.norms[1](self.second(y)) + self.norms[2](self.shortcut(x)))


class Recurrent(nn.Module):
    """Two recurrent layers with dropout between them, and a classifier on the last output."""

    def __init__(self, layer: type[nn.RNNBase]) -> None:
        super().__init__()
        self.embed = nn.Embedding(30, 12)
        self.layers = layer(12, 16, num_layers=2, batch_first=True, dropout=0.15, bidirectional=True)
        self.head = nn.Linear(32, 4)

    def forward(self, tokens: torch.Tensor, lengths: torch.Tensor | None = None) -> torch.Tensor:
        x = self.embed(tokens)
        if lengths is None:
            return self.head(self.layers(x)[0][:, -1])
        packed = rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        return self.head(rnn.pad_packed_sequence(self.layers(packed)[0], batch_first=True)[0].sum(1))


Loss = Callable[[], torch.Tensor]


def resnet(device: str) -> tuple[nn.Module, Loss]:
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.MaxPool2d(2), Block(8), Block(16),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.15), nn.Linear(32, 10),
    )  # fmt: skip
    x, y = torch.randn(6, 3, 16, 16), torch.randint(0, 10, (6,))
    model, x, y = model.to(device), x.to(device), y.to(device)
    return model, lambda: F.cross_entropy(model(x), y)


def lstm(device: str) -> tuple[nn.Module, Loss]:
    model, tokens, y = Recurrent(nn.LSTM).to(device), torch.randint(0, 30, (5, 7)), torch.randint(0, 4, (5,))
    tokens, y = tokens.to(device), y.to(device)
    return model, lambda: F.cross_entropy(model(tokens), y)


def packed_gru(device: str) -> tuple[nn.Module, Loss]:
    model, tokens, y = Recurrent(nn.GRU).to(device), torch.randint(0, 30, (5, 7)), torch.randint(0, 4, (5,))
    tokens, y, lengths = tokens.to(device), y.to(device), torch.tensor([4, 7, 2, 2, 5])
    return model, lambda: F.cross_entropy(model(tokens, lengths), y)


def bert(device: str) -> tuple[nn.Module, Loss]:
    transformers = pytest.importorskip("transformers", reason="BERT is its: pip install transformers")
    config = transformers.BertConfig(
        vocab_size=50, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48,
        max_position_embeddings=16, num_labels=3, hidden_dropout_prob=0.15, attention_probs_dropout_prob=0.1,
    )  # fmt: skip
    model = transformers.BertForSequenceClassification(config).train().to(device)
    tokens, labels = torch.randint(0, 50, (4, 10)).to(device), torch.tensor([0, 2, 1, 2]).to(device)
    mask = (torch.arange(10) < torch.tensor([[10], [6], [9], [3]])).long().to(device)
    return model, lambda: model(input_ids=tokens, attention_mask=mask, labels=labels).loss


def trained(build: Callable[[str], tuple[nn.Module, Loss]], optimizer: str, device: str) -> list[torch.Tensor]:
    """Parameters and buffers after twenty steps, and the last loss."""
    torch.manual_seed(0)
    model, loss = build(device)
    updates = OPTIMIZERS[optimizer](model.parameters())
    before = [p.detach().cpu().clone() for p in model.parameters()]
    torch.manual_seed(1)  # both generators, for dropout
    for _ in range(STEPS):
        updates.zero_grad()
        value = loss()
        value.backward()
        updates.step()
    moved = [not torch.equal(p.cpu(), b) for p, b in zip(model.parameters(), before, strict=True)]
    assert sum(moved) > len(moved) / 2
    return [value.detach().cpu(), *(t.detach().cpu() for t in (*model.parameters(), *model.buffers()))]


PROGRAMS = {"BERT": bert, "ResNet": resnet, "LSTM": lstm, "GRU of packed sequences": packed_gru}
FAST = {
    ("ResNet", "AdamW fused"),
    ("LSTM", "Adam foreach"),
    ("GRU of packed sequences", "SGD"),
    ("BERT", "AdamW foreach"),
}


@pytest.mark.parametrize(
    ("program", "optimizer"),
    [
        pytest.param(p, o, marks=() if (p, o) in FAST else pytest.mark.slow)
        for p in PROGRAMS
        for o in OPTIMIZERS
    ],
)  # fmt: skip
def test_training_ends_with_the_cpus_parameters(program, optimizer):
    expected, actual = (trained(PROGRAMS[program], optimizer, device) for device in ("cpu", "simacc"))
    for a, b in zip(expected, actual, strict=True):
        assert torch.equal(a, b)
