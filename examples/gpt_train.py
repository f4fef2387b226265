"""A training step of the GPT in examples/gpt.py: tokens and the tokens that follow them to the mean loss."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from examples.gpt import GPT


class LanguageModel(nn.Module):
    """A GPT with its loss."""

    def __init__(self, n_tokens: int, max_seq: int, dim: int, n_heads: int, n_layers: int) -> None:
        super().__init__()
        self.gpt = GPT(n_tokens, max_seq, dim, n_heads, n_layers)

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        logits = self.gpt(tokens)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def small() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """4 blocks at sizes for a CPU."""
    model = LanguageModel(n_tokens=512, max_seq=128, dim=128, n_heads=4, n_layers=4)
    return model.train(), (torch.randint(512, (4, 64)), torch.randint(512, (4, 64)))


def default() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """GPT-2 small (124M) in bfloat16, 8 sequences of 1024 tokens."""
    model = LanguageModel(n_tokens=50257, max_seq=1024, dim=768, n_heads=12, n_layers=12)
    tokens = torch.randint(50257, (8, 1025))
    return model.train().bfloat16(), (tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())
