"""A convolutional network small enough to follow tile by tile."""

from __future__ import annotations

import itertools

import torch
from torch import nn

__all__ = ["TinyCnn"]


class TinyCnn(nn.Module):
    """Three blocks of 3x3 convolution, batch norm, ReLU and 2x2 max-pooling, then a mean and a linear layer.

    Takes (batch, 3, 32, 32) images and gives 10 logits.
    """

    def __init__(self) -> None:
        super().__init__()
        channels = (3, 16, 32, 64)
        layers: list[nn.Module] = []
        for before, after in itertools.pairwise(channels):
            layers += [
                nn.Conv2d(before, after, kernel_size=3, padding=1),
                nn.BatchNorm2d(after),
                nn.ReLU(),
                nn.MaxPool2d(2),
            ]
        self.features = nn.Sequential(*layers)
        self.head = nn.Linear(channels[-1], 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        features: torch.Tensor = self.features(images)
        logits: torch.Tensor = self.head(features.mean(dim=(2, 3)))
        return logits
