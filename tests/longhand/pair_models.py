"""A small network in many versions, each one change away from the first: what people do to models."""

import os
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

import longhand

FACTORY = "tests.longhand.pair_models:from_environment"
VERSIONS = (
    "first",
    "op before",
    "op after",
    "another activation",
    "residual scaled",
    "layer added",
    "layer removed",
    "bfloat16",
    "batch",
    "local renamed",
    "norm without bias",
    "masked",
)


class Attention(nn.Module):
    """Values are narrower than keys: on the CPU its products and its softmax are calls of their own."""

    def __init__(self, dim, version):
        super().__init__()
        self.widths = [dim, dim, dim // 2]
        self.qkv = nn.Linear(dim, sum(self.widths))
        self.out = nn.Linear(dim // 2, dim)
        self.version = version

    def forward(self, x):
        q, k, v = self.qkv(x).split(self.widths, dim=-1)
        if self.version == "local renamed":
            logits = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
            weights = torch.softmax(logits, dim=-1)
            return self.out(weights @ v)
        scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
        if self.version == "masked":
            n = x.shape[-2]
            scores = scores.masked_fill(torch.ones(n, n, dtype=torch.bool).triu(1), float("-inf"))
        weights = torch.softmax(scores, dim=-1)
        return self.out(weights @ v)


class Mlp(nn.Module):
    def __init__(self, dim, version):
        super().__init__()
        self.widen = nn.Linear(dim, 2 * dim)
        self.narrow = nn.Linear(2 * dim, dim)
        self.version = version

    def forward(self, x):
        hidden = self.widen(x)
        hidden = F.silu(hidden) if self.version in ("another activation", "both") else F.gelu(hidden)
        if self.version == "op after":
            hidden = hidden * 0.5
        return self.narrow(hidden)


class Block(nn.Module):
    def __init__(self, dim, version):
        super().__init__()
        self.norm_1 = nn.LayerNorm(dim)
        self.attention = Attention(dim, version)
        self.norm_2 = nn.LayerNorm(dim, bias=version != "norm without bias")
        self.mlp = Mlp(dim, version)
        self.version = version

    def forward(self, x):
        x = x + self.attention(self.norm_1(x))
        if self.version == "residual scaled":
            return x + 0.1 * self.mlp(self.norm_2(x))
        return x + self.mlp(self.norm_2(x))


class Net(nn.Module):
    def __init__(self, dim, n_layers, version):
        super().__init__()
        self.blocks = nn.ModuleList(Block(dim, version) for _ in range(n_layers))
        self.norm = nn.LayerNorm(dim)
        self.version = version

    def forward(self, x):
        if self.version == "op before":
            x = torch.tanh(x)
        for block in self.blocks:
            x = block(x)
        return torch.log_softmax(self.norm(x), dim=-1)


def make(version):
    """(model, args). ``both`` is "another activation" and "layer added" together."""
    n_layers = {"layer added": 4, "both": 4, "layer removed": 2}.get(version, 3)
    torch.manual_seed(0)
    model = Net(48, n_layers, version).eval()
    x = torch.randn(8 if version == "batch" else 4, 10, 48)
    if version == "bfloat16":
        return model.bfloat16(), (x.bfloat16(),)
    return model, (x,)


def from_environment():
    """The factory of tests that generate in processes of their own."""
    return make(os.environ["PAIR_VERSION"])


def generate(version, out):
    """Writes a version's unit; what became of the files that were there."""
    model, args = make(version)
    return longhand.generate(model, args, out=Path(out), factory=FACTORY).merge
