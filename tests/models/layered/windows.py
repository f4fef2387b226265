"""Attention in windows that are shifted, or reach another distance in each layer."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.models.layered.registry import DIM, HEADS, Example, Stack, layered, sequence


class Windowed(nn.Module):
    """Attention in windows, shifted or not, with a bias for the distance, as Swin has it."""

    def __init__(self, shift: int, size: int = 8, window: int = 4) -> None:
        super().__init__()
        self.shift, self.window = shift, window
        self.norm, self.qkv, self.out = nn.LayerNorm(DIM), nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, DIM)
        self.table = nn.Parameter(torch.randn(2 * window - 1, HEADS))
        distance = torch.arange(window)[:, None] - torch.arange(window) + window - 1
        self.register_buffer("distance", distance, persistent=False)
        mask = None
        if shift:
            region = torch.zeros(size)
            region[-window:-shift], region[-shift:] = 1, 2
            regions = region.view(-1, window)
            mask = (regions[:, None] != regions[:, :, None]).float() * -100.0
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        batch, size, dim = x.shape
        hidden = self.norm(x)
        if self.shift:
            hidden = torch.roll(hidden, -self.shift, 1)
        windows = hidden.view(batch * size // self.window, self.window, dim)
        qkv = self.qkv(windows).view(-1, self.window, 3, HEADS, dim // HEADS).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        scores = q * (dim // HEADS) ** -0.5 @ k.transpose(-2, -1)
        bias = self.table[self.distance.view(-1)].view(self.window, self.window, -1)
        scores = scores + bias.permute(2, 0, 1).contiguous()[None]
        if self.mask is not None:
            n_windows = self.mask.shape[0]
            scores = scores.view(-1, n_windows, HEADS, self.window, self.window) + self.mask[:, None]
            scores = scores.view(-1, HEADS, self.window, self.window)
        mixed = (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, size, dim)
        mixed = self.out(mixed)
        if self.shift:
            mixed = torch.roll(mixed, self.shift, 1)
        return x + mixed


@layered(2, 3, 5, 6)
def shifted_windows(count: int) -> Example:
    return Stack([Windowed(2 * (number % 2)) for number in range(count)]), (torch.randn(3, 8, DIM),)


@layered(5, 7)
def shifts(count: int) -> Example:
    """A shift that no other layer has."""
    return Stack([Windowed(number % 3 + 1) for number in range(count)]), (torch.randn(3, 8, DIM),)


class Local(nn.Module):
    """Attention to the last few positions, or to all."""

    def __init__(self, reach: int | None) -> None:
        super().__init__()
        self.reach, self.norm = reach, nn.LayerNorm(DIM)
        self.qkv, self.out = nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, DIM)

    def forward(self, x: Tensor) -> Tensor:
        batch, seq, dim = x.shape
        parts = self.qkv(self.norm(x)).chunk(3, -1)
        q, k, v = (part.view(batch, seq, HEADS, -1).transpose(1, 2) for part in parts)
        place = torch.arange(seq)
        keep = place[:, None] >= place
        if self.reach is not None:
            keep = keep & (place[:, None] - place < self.reach)
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=keep)
        return x + self.out(mixed.transpose(1, 2).reshape(batch, seq, dim))


@layered(2, 3, 5, 8)
def alternating_reach(count: int) -> Example:
    return Stack([Local(3 if number % 2 else None) for number in range(count)]), sequence()


@layered(5, 7)
def growing_reach(count: int) -> Example:
    return Stack([Local(1 + number) for number in range(count)]), sequence()
