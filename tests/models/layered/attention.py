"""Layers of attention with rotary positions, whose bases are buffers of each layer or of all."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.models.layered.registry import DIM, HEADS, Example, Stack, layered, sequence


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary positions."""
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat([-second, first], -1) * sin


class Rotary(nn.Module):
    """Attention with rotary positions of a base of its own, in buffers that are in no state_dict."""

    def __init__(self, base: float, fused: bool = False) -> None:
        super().__init__()
        self.norm, self.fused = nn.LayerNorm(DIM), fused
        self.qkv, self.out = nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, DIM)
        steps = torch.arange(7)[:, None] / base ** (torch.arange(0, DIM // HEADS, 2) / (DIM // HEADS))
        self.register_buffer("cos", torch.cat([steps, steps], -1).cos(), persistent=False)
        self.register_buffer("sin", torch.cat([steps, steps], -1).sin(), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        batch, seq, dim = x.shape
        if self.fused:
            qkv = self.qkv(self.norm(x)).view(batch, seq, 3, HEADS, dim // HEADS).permute(2, 0, 3, 1, 4)
            q, k, v = qkv.unbind(0)
        else:
            parts = self.qkv(self.norm(x)).chunk(3, -1)
            q, k, v = (part.view(batch, seq, HEADS, -1).transpose(1, 2) for part in parts)
        q, k = rotated(q, self.cos, self.sin), rotated(k, self.cos, self.sin)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(mixed.transpose(1, 2).reshape(batch, seq, dim))


@layered(2, 3, 5, 7)
def rotary_bases(count: int) -> Example:
    return Stack([Rotary(100.0 * (1 + number)) for number in range(count)]), sequence()


@layered(6)
def one_rotary_base_that_differs(count: int) -> Example:
    return Stack([Rotary(10.0 if number == 3 else 10000.0) for number in range(count)]), sequence()


@layered(2, 3, 7)
def rotary_base_of_all(count: int) -> Example:
    return Stack([Rotary(100.0) for _ in range(count)]), sequence()


@layered(2, 3)
def fused_qkv(count: int) -> Example:
    return Stack([Rotary(100.0, fused=True) for _ in range(count)]), sequence()


@layered(2, 5)
def fused_qkv_rotary_bases(count: int) -> Example:
    return Stack([Rotary(100.0 * (1 + number), fused=True) for number in range(count)]), sequence()
