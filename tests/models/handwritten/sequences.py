"""Models of sequences and sounds."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.models.handwritten.registry import model, normal


@model(normal(2, 7, 12))
class SelectiveScan(nn.Module):
    """A Mamba-like block: depthwise causal convolution and a scan written as a loop."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(12, 48)
        self.conv = nn.Conv1d(24, 24, 4, padding=3, groups=24)
        self.select = nn.Linear(24, 9)
        self.delta = nn.Linear(1, 24)
        self.log_a = nn.Parameter(torch.log(torch.arange(1, 5).float()).repeat(24, 1))
        self.skip = nn.Parameter(torch.ones(24))
        self.out = nn.Linear(24, 12)

    def forward(self, x: Tensor) -> Tensor:
        length = x.shape[1]
        h, gate = self.inner(x).chunk(2, -1)
        h = F.silu(self.conv(h.transpose(1, 2))[..., :length].transpose(1, 2))
        delta, b, c = self.select(h).split([1, 4, 4], -1)
        delta = F.softplus(self.delta(delta))
        a = -torch.exp(self.log_a)
        decay = torch.exp(delta[..., None] * a)
        write = delta[..., None] * b[:, :, None, :] * h[..., None]
        state = torch.zeros_like(write[:, 0])
        outs = []
        for t in range(length):
            state = decay[:, t] * state + write[:, t]
            outs.append((state * c[:, t, None, :]).sum(-1))
        y = torch.stack(outs, 1) + h * self.skip
        return self.out(y * F.silu(gate))


@model(normal(2, 6, 4, 4))
class VectorQuantizer(nn.Module):
    """The quantizer of a VQ-VAE: the nearest code, its loss, and a straight-through gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.codes = nn.Parameter(torch.randn(10, 6))

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        flat = z.permute(0, 2, 3, 1).reshape(-1, 6)
        distance = flat.pow(2).sum(1, keepdim=True) + self.codes.pow(2).sum(1) - 2 * flat @ self.codes.t()
        index = distance.argmin(1)
        quantized = self.codes[index].view(2, 4, 4, 6).permute(0, 3, 1, 2)
        loss = F.mse_loss(quantized.detach(), z) * 0.25 + F.mse_loss(quantized, z.detach())
        used = F.one_hot(index, 10).float().mean(0)
        perplexity = torch.exp(-(used * torch.log(used + 1e-10)).sum())
        return z + (quantized - z).detach(), loss, perplexity


@model(normal(2, 200))
class WaveEncoder(nn.Module):
    """Strided convolutions over a waveform, layer norm over channels and GELU, as in wav2vec."""

    def __init__(self) -> None:
        super().__init__()
        sizes = [(1, 8, 10, 5), (8, 8, 3, 2), (8, 12, 3, 2)]
        self.convs = nn.ModuleList([nn.Conv1d(i, o, k, s, bias=False) for i, o, k, s in sizes])
        self.norms = nn.ModuleList([nn.LayerNorm(o) for _, o, _, _ in sizes])
        self.mask = nn.Parameter(torch.randn(12))

    def forward(self, wave: Tensor) -> Tensor:
        wave = (wave - wave.mean(-1, keepdim=True)) / torch.sqrt(wave.var(-1, keepdim=True) + 1e-7)
        h = wave[:, None]
        for conv, norm in zip(self.convs, self.norms, strict=True):
            h = F.gelu(norm(conv(h).transpose(1, 2)).transpose(1, 2))
        h = h.transpose(1, 2)
        masked = torch.arange(h.shape[1]) % 3 == 0
        return torch.where(masked[None, :, None], self.mask, h)
