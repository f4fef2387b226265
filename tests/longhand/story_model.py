"""The model of test_edit_story.py; STORY_VERSION in the environment says what somebody changed in it."""

import os

import torch
import torch.nn.functional as F
from torch import nn


class Mlp(nn.Module):
    def __init__(self, dim, version):
        super().__init__()
        self.version = version
        self.widen = nn.Linear(dim, 4 * dim)
        self.narrow = nn.Linear(4 * dim, dim)

    def forward(self, x):
        hidden = F.gelu(self.widen(x))
        if self.version == "op added after":
            hidden = hidden * 0.5
        return self.narrow(hidden)


class Block(nn.Module):
    def __init__(self, dim, version):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.mlp = Mlp(dim, version)

    def forward(self, x):
        return x + self.mlp(self.norm(x))


class Net(nn.Module):
    def __init__(self, dim, n_layers, version):
        super().__init__()
        self.version = version
        self.blocks = nn.ModuleList(Block(dim, version) for _ in range(n_layers))
        self.final = nn.LayerNorm(dim)

    def forward(self, x):
        if self.version == "op added before":
            x = torch.tanh(x)
        for block in self.blocks:
            x = block(x)
        return torch.log_softmax(self.final(x), dim=-1)


def make():
    """So many rows that the worst error among their elements is no matter of luck."""
    version = os.environ.get("STORY_VERSION", "first")
    model = Net(64, 4 if version == "layer added" else 3, version).eval()
    x = torch.randn(192 if version == "batch changed" else 128, 64)
    if version == "dtype changed":
        model, x = model.bfloat16(), x.bfloat16()
    return model, (x,)
