"""Models whose gradients are compared: those of transformers, small, with random weights, and one of batch norms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import transformers
from torch import nn

from tests.models.hugging_face import MODELS

Factory = Callable[[], tuple[nn.Module, dict[str, Any]]]


def resnet() -> tuple[nn.Module, dict[str, Any]]:
    """A ResNet of two stages that classifies: convolutions, batch norms, strides, a sum of two branches."""
    config = transformers.ResNetConfig(
        num_channels=3,
        embedding_size=8,
        hidden_sizes=[16, 32],
        depths=[1, 2],
        layer_type="basic",
        num_labels=5,
    )
    model = transformers.ResNetForImageClassification(config)
    return model, {"pixel_values": torch.randn(4, 3, 32, 32)}


class Norms(nn.Module):
    """Batch norms of three kinds: of a sequence, of rows, without parameters; and what stands between them.

    No bias stands before a norm: its gradient is exactly 0, so that any rounding is infinitely many times another.
    There are many channels: the worst of a few is luck, for eager as for anybody.
    """

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(3, 64, 3, padding=1, bias=False)
        self.of_sequence = nn.BatchNorm1d(64)
        self.mix = nn.Linear(64, 512, bias=False)
        self.of_rows = nn.BatchNorm1d(512, momentum=0.3)
        self.drop = nn.Dropout(0.1)
        self.head = nn.Linear(512, 32, bias=False)
        self.plain = nn.BatchNorm1d(32, affine=False, track_running_stats=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.of_sequence(self.conv(x))).mean(-1)
        x = self.drop(torch.tanh(self.of_rows(self.mix(x))))
        return x[:, :32] + self.plain(self.head(x))


def norms() -> tuple[nn.Module, dict[str, Any]]:
    """A small model of batch norms."""
    return Norms(), {"x": torch.randn(32, 3, 10)}


ARCHITECTURES: dict[str, Factory] = {**MODELS, "resnet": resnet, "batch norms": norms}
