"""The model of test_edit_story.py; VERSION says what somebody changed in it."""

import torch
import torch.nn.functional as F
from torch import nn

VERSION = "first"


class Mlp(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.widen = nn.Linear(dim, 4 * dim)
        self.narrow = nn.Linear(4 * dim, dim)

    def forward(self, x):
        hidden = F.gelu(self.widen(x))
        if VERSION == "op added after":
            hidden = hidden * 0.5
        return self.narrow(hidden)


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.mlp = Mlp(dim)

    def forward(self, x):
        return x + self.mlp(self.norm(x))


class Net(nn.Module):
    def __init__(self, dim, n_layers):
        super().__init__()
        self.blocks = nn.ModuleList(Block(dim) for _ in range(n_layers))
        self.final = nn.LayerNorm(dim)

    def forward(self, x):
        if VERSION == "op added before":
            x = torch.tanh(x)
        for block in self.blocks:
            x = block(x)
        return torch.softmax(self.final(x), dim=-1)


def make():
    model = Net(64, 4 if VERSION == "layer added" else 3).eval()
    x = torch.randn(8 if VERSION == "batch changed" else 4, 64)
    if VERSION == "dtype changed":
        model, x = model.bfloat16(), x.bfloat16()
    return model, (x,)
