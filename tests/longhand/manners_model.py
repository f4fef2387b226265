"""A masked softmax over tokens, for tests of the command line: `tokens` and `mask` have sizes in common."""

import torch
from torch import nn


class Scorer(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.score = nn.Linear(dim, 1)

    def forward(self, tokens, mask):
        normed = self.norm(tokens)
        scores = self.score(normed).squeeze(-1) * 0.25
        scores = scores.masked_fill(mask == 0, -10000.0)
        weights = torch.softmax(scores, dim=-1)
        return (weights.unsqueeze(-1) * normed).sum(dim=1)


def make():
    torch.manual_seed(0)
    return Scorer().eval(), (torch.randn(6, 10, 16), (torch.rand(6, 10) < 0.8).float())


def rows(x):
    """A function of one tensor."""
    return torch.softmax(x * 0.5, dim=-1) + 1.0


def wide():
    return rows, (torch.randn(64, 32),)
