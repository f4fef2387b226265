"""Attention that knows positions: rotary, ALiBi, buckets, windows."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.models.handwritten.registry import model, normal


@model(normal(2, 9, 32))
class RotaryAttention(nn.Module):
    """Causal attention with interleaved rotary positions as complex numbers would turn them."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(32, 96)
        self.out = nn.Linear(32, 32)

    def forward(self, x: Tensor) -> Tensor:
        b, s, d = x.shape
        q, k, v = self.qkv(x).view(b, s, 3, 4, 8).permute(2, 0, 3, 1, 4)
        angle = torch.outer(torch.arange(s).float(), 10000 ** (-torch.arange(0, 8, 2).float() / 8))
        cos, sin = angle.cos(), angle.sin()

        def rotate(t: Tensor) -> Tensor:
            even, odd = t[..., ::2], t[..., 1::2]
            return torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2)

        y = F.scaled_dot_product_attention(rotate(q), rotate(k), v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(b, s, d))


@model(normal(2, 9, 32))
class AlibiAttention(nn.Module):
    """Causal attention with linear biases, written out."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(32, 96)
        self.register_buffer("slopes", 2.0 ** (-2.0 * torch.arange(1, 5)))

    def forward(self, x: Tensor) -> Tensor:
        b, s, d = x.shape
        q, k, v = (t.view(b, s, 4, 8).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        position = torch.arange(s, device=x.device)
        bias = (position[None, :] - position[:, None]).clamp(max=0) * self.slopes[:, None, None]
        mask = torch.triu(torch.full((s, s), float("-inf"), device=x.device), 1)
        scores = q @ k.transpose(-1, -2) / math.sqrt(8) + bias + mask
        return (scores.softmax(-1) @ v).transpose(1, 2).reshape(b, s, d)


@model(normal(2, 11, 24))
class BucketBias(nn.Module):
    """T5's relative position buckets, looked up and added to scores."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Embedding(16, 3)
        self.q = nn.Linear(24, 24, bias=False)
        self.k = nn.Linear(24, 24, bias=False)

    def buckets(self, s: int) -> Tensor:
        relative = torch.arange(s)[None, :] - torch.arange(s)[:, None]
        bucket = (relative > 0).long() * 8
        n = relative.abs()
        large = 4 + (torch.log(n.float().clamp_min(1) / 4) / math.log(16 / 4) * 4).long()
        return bucket + torch.where(n < 4, n, large.clamp(max=7))

    def forward(self, x: Tensor) -> Tensor:
        b, s, _ = x.shape
        q = self.q(x).view(b, s, 3, 8).transpose(1, 2)
        k = self.k(x).view(b, s, 3, 8).transpose(1, 2)
        bias = self.bias(self.buckets(s)).permute(2, 0, 1)[None]
        return (q @ k.transpose(2, 3) + bias).float().softmax(-1).type_as(x)


@model(normal(2, 13, 16))
class SlidingWindow(nn.Module):
    """Causal attention within a window of four, the mask made of comparisons."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(16, 48)

    def forward(self, x: Tensor) -> Tensor:
        b, s, d = x.shape
        q, k, v = (t.view(b, s, 2, 8).transpose(1, 2) for t in self.qkv(x).split(16, -1))
        row, col = torch.arange(s)[:, None], torch.arange(s)[None, :]
        allowed = (col <= row) & (row - col < 4)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=allowed).transpose(1, 2).reshape(b, s, d)
