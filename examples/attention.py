"""Attention written out by hand: three projections, exponentials normalized over each row, and their mix of v."""

from __future__ import annotations

import torch
from torch import nn


class Attention(nn.Module):
    """Single-head attention without scaling, on (batch, seq, dim)."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.W_q = nn.Linear(dim, dim, bias=False)
        self.W_k = nn.Linear(dim, dim, bias=False)
        self.W_v = nn.Linear(dim, dim, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q = self.W_q(x)
        k = self.W_k(x)
        v = self.W_v(x)
        out = q @ k.transpose(-2, -1)
        out = torch.exp(out) / torch.sum(torch.exp(out), dim=-1, keepdim=True)
        return out @ v


def small() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """Sizes for a CPU: 4 sequences of 512 tokens, dim 256."""
    return Attention(256).eval(), (torch.randn(4, 512, 256),)


def default() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """Sizes for a GPU: 4 sequences of 1024 tokens, dim 4096; inputs small enough for bare exponentials."""
    return Attention(4096).eval(), (0.5 * torch.randn(4, 1024, 4096),)
