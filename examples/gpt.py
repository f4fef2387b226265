"""A GPT-2 style language model: learned positions, pre-norm blocks, causal attention, GELU, tied head."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


class CausalSelfAttention(nn.Module):
    """Multi-head attention in which a token sees itself and what came before."""

    def __init__(self, dim: int, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, seq, dim = x.shape
        q, k, v = self.qkv(x).split(dim, dim=-1)
        q = q.view(batch, seq, self.n_heads, -1).transpose(1, 2)
        k = k.view(batch, seq, self.n_heads, -1).transpose(1, 2)
        v = v.view(batch, seq, self.n_heads, -1).transpose(1, 2)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        mixed = mixed.transpose(1, 2).reshape(batch, seq, dim)
        return self.proj(mixed)


class Mlp(nn.Module):
    """Widen, GELU, narrow."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.widen = nn.Linear(dim, 4 * dim)
        self.narrow = nn.Linear(4 * dim, dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = F.gelu(self.widen(x), approximate="tanh")
        return self.narrow(hidden)


class Block(nn.Module):
    """A pre-norm transformer block."""

    def __init__(self, dim: int, n_heads: int) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(dim)
        self.attn = CausalSelfAttention(dim, n_heads)
        self.ln_2 = nn.LayerNorm(dim)
        self.mlp = Mlp(dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    """Token numbers (batch, seq) to logits (batch, seq, n_tokens)."""

    def __init__(self, n_tokens: int, max_seq: int, dim: int, n_heads: int, n_layers: int) -> None:
        super().__init__()
        self.token_embedding = nn.Embedding(n_tokens, dim)
        self.position_embedding = nn.Embedding(max_seq, dim)
        self.blocks = nn.ModuleList(Block(dim, n_heads) for _ in range(n_layers))
        self.ln_f = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, n_tokens, bias=False)
        self.apply(self._initialize)
        self.head.weight = self.token_embedding.weight

    @staticmethod
    def _initialize(module: nn.Module) -> None:
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=0.02)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        _, seq = tokens.shape
        positions = torch.arange(seq, device=tokens.device)
        x = self.token_embedding(tokens) + self.position_embedding(positions)
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln_f(x))


def small() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """12 blocks at sizes for a CPU."""
    model = GPT(n_tokens=2048, max_seq=256, dim=256, n_heads=4, n_layers=12)
    return model.eval(), (torch.randint(2048, (2, 128)),)


def default() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """GPT-2 small (124M) in bfloat16, 8 sequences of 1024 tokens."""
    model = GPT(n_tokens=50257, max_seq=1024, dim=768, n_heads=12, n_layers=12)
    return model.eval().bfloat16(), (torch.randint(50257, (8, 1024)),)
