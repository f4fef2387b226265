"""The network that pages of the documentation speak of. A page copies this file into its folder, and edits it."""

import torch
import torch.nn.functional as F
from torch import nn


class Mlp(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.widen = nn.Linear(dim, 4 * dim)
        self.narrow = nn.Linear(4 * dim, dim)

    def forward(self, x):
        widen = self.widen(self.norm(x))
        hidden = F.gelu(widen)
        return x + self.narrow(hidden)


class Net(nn.Module):
    def __init__(self, dim=64, n_layers=3):
        super().__init__()
        self.layers = nn.ModuleList(Mlp(dim) for _ in range(n_layers))
        self.norm = nn.LayerNorm(dim)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return torch.log_softmax(self.norm(x), dim=-1)


def make():
    """The model, and an example call."""
    torch.manual_seed(0)
    return Net().eval(), (torch.randn(128, 64),)
