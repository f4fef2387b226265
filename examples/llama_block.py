"""One block of a Llama-style model: RMSNorm, rotary embedding, grouped-query attention, SwiGLU."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


class RMSNorm(nn.Module):
    """Scales each row to a root mean square of one, computed in float32."""

    def __init__(self, dim: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x_float = x.float()
        mean_square = x_float.pow(2).mean(-1, keepdim=True)
        normed = x_float * torch.rsqrt(mean_square + self.eps)
        return normed.to(x.dtype) * self.weight


class Rotary(nn.Module):
    """Rotates pairs of channels by angles that grow with the position."""

    cos: torch.Tensor
    sin: torch.Tensor

    def __init__(self, head_dim: int, max_seq: int, base: float = 10000.0) -> None:
        super().__init__()
        frequencies = base ** (-torch.arange(0, head_dim, 2).float() / head_dim)
        angles = torch.outer(torch.arange(max_seq).float(), frequencies)
        angles = torch.cat([angles, angles], dim=-1)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        seq = x.shape[-2]
        first, second = x.chunk(2, dim=-1)
        rotated = torch.cat([-second, first], dim=-1)
        return x * self.cos[:seq] + rotated * self.sin[:seq]


class GroupedQueryAttention(nn.Module):
    """Causal attention in which several query heads share one key and value head."""

    def __init__(self, dim: int, n_heads: int, n_kv_heads: int, max_seq: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.n_kv_heads = n_kv_heads
        self.head_dim = dim // n_heads
        self.q_proj = nn.Linear(dim, n_heads * self.head_dim, bias=False)
        self.k_proj = nn.Linear(dim, n_kv_heads * self.head_dim, bias=False)
        self.v_proj = nn.Linear(dim, n_kv_heads * self.head_dim, bias=False)
        self.o_proj = nn.Linear(dim, dim, bias=False)
        self.rotary = Rotary(self.head_dim, max_seq)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, seq, dim = x.shape
        q = self.q_proj(x).view(batch, seq, self.n_heads, self.head_dim).transpose(1, 2)
        k = self.k_proj(x).view(batch, seq, self.n_kv_heads, self.head_dim).transpose(1, 2)
        v = self.v_proj(x).view(batch, seq, self.n_kv_heads, self.head_dim).transpose(1, 2)
        q = self.rotary(q)
        k = self.rotary(k)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.o_proj(mixed.transpose(1, 2).reshape(batch, seq, dim))


class SwiGLU(nn.Module):
    """A gated feed-forward layer."""

    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(dim, hidden, bias=False)
        self.up_proj = nn.Linear(dim, hidden, bias=False)
        self.down_proj = nn.Linear(hidden, dim, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gated = F.silu(self.gate_proj(x)) * self.up_proj(x)
        return self.down_proj(gated)


class LlamaBlock(nn.Module):
    """Norm, attention, norm, SwiGLU, each around a residual, on (batch, seq, dim)."""

    def __init__(self, dim: int, n_heads: int, n_kv_heads: int, hidden: int, max_seq: int) -> None:
        super().__init__()
        self.attention_norm = RMSNorm(dim)
        self.attention = GroupedQueryAttention(dim, n_heads, n_kv_heads, max_seq)
        self.mlp_norm = RMSNorm(dim)
        self.mlp = SwiGLU(dim, hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = x + self.attention(self.attention_norm(x))
        return h + self.mlp(self.mlp_norm(h))


def small() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """Sizes for a CPU."""
    model = LlamaBlock(dim=256, n_heads=8, n_kv_heads=2, hidden=704, max_seq=512)
    return model.eval(), (torch.randn(2, 256, 256),)


def default() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """Llama 3 8B's block in bfloat16, 2 sequences of 2048 tokens."""
    model = LlamaBlock(dim=4096, n_heads=32, n_kv_heads=8, hidden=14336, max_seq=2048)
    return model.eval().bfloat16(), (torch.randn(2, 2048, 4096, dtype=torch.bfloat16),)
