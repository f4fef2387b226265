"""Parts of diffusion models."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.models.handwritten.registry import below, model, normal


@model(normal(4, 3, 8, 8), below(100, 4), normal(4, 3, 8, 8))
class NoiseSchedule(nn.Module):
    """q_sample of a diffusion model: a cosine schedule, gathered by time step."""

    def __init__(self) -> None:
        super().__init__()
        beta = torch.linspace(1e-4, 0.02, 100)
        alphas = torch.cumprod(1 - beta, 0)
        self.register_buffer("sqrt_alphas", alphas.sqrt())
        self.register_buffer("sqrt_one_minus_alphas", (1 - alphas).sqrt())

    def forward(self, x: Tensor, t: Tensor, noise: Tensor) -> Tensor:
        a = self.sqrt_alphas.gather(-1, t).reshape(t.shape[0], 1, 1, 1)
        b = self.sqrt_one_minus_alphas.gather(-1, t).reshape(t.shape[0], 1, 1, 1)
        return a * x + b * noise


@model(normal(4, 3, 8, 8), below(100, 4), normal(4, 3, 8, 8))
class NoiseScheduleInPlace(nn.Module):
    """The same, with the schedule computed in forward and indexed."""

    def forward(self, x: Tensor, t: Tensor, noise: Tensor) -> Tensor:
        beta = torch.linspace(1e-4, 0.02, 100, device=x.device)
        alphas = torch.cumprod(1 - beta, 0)
        a = alphas.sqrt()[t][:, None, None, None]
        b = (1 - alphas).sqrt()[t][:, None, None, None]
        return a * x + b * noise


@model(normal(2, 8, 8, 8), below(1000, 2))
class UnetBlock(nn.Module):
    """A residual block of a diffusion UNet with sinusoidal time embedding, down and up again."""

    def __init__(self) -> None:
        super().__init__()
        self.time = nn.Sequential(nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, 32))
        self.norm1 = nn.GroupNorm(4, 8)
        self.conv1 = nn.Conv2d(8, 16, 3, padding=1)
        self.shift = nn.Linear(32, 32)
        self.norm2 = nn.GroupNorm(4, 16)
        self.conv2 = nn.Conv2d(16, 16, 3, padding=1)
        self.skip = nn.Conv2d(8, 16, 1)
        self.down = nn.Conv2d(16, 16, 3, stride=2, padding=1)
        self.out = nn.Conv2d(32, 8, 3, padding=1)

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        half = 8
        frequency = torch.exp(-math.log(10000) * torch.arange(half, device=x.device) / half)
        angle = t[:, None].float() * frequency[None]
        emb = self.time(torch.cat([angle.cos(), angle.sin()], dim=-1))
        h = self.conv1(F.silu(self.norm1(x)))
        scale, shift = self.shift(F.silu(emb))[:, :, None, None].chunk(2, dim=1)
        h = self.norm2(h) * (1 + scale) + shift
        h = self.conv2(F.silu(h)) + self.skip(x)
        low = F.interpolate(self.down(h), scale_factor=2, mode="nearest")
        return self.out(torch.cat([h, low], dim=1))
