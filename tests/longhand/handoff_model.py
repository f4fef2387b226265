"""Five kernels between matrix products, for what is handed off, edited and judged."""

import torch
import torch.nn.functional as F
from torch import nn


class Five(nn.Module):
    def __init__(self, dim=64):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(dim, dim) for _ in range(5))
        self.norm = nn.LayerNorm(dim)

    def forward(self, x):
        first, second, third, fourth, fifth = self.layers
        x = F.gelu(first(x))
        x = self.norm(second(x))
        x = torch.softmax(third(x), dim=-1)
        x = torch.sigmoid(fourth(x)) * 2
        return torch.exp(fifth(x)) + 1


def make():
    torch.manual_seed(0)
    return Five().eval(), (torch.randn(128, 64),)
