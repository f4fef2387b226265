"""25 varied modules, each of at least 8 operations and one reduction, for ``backend="longhand"``.

`MODULES` maps a name to a factory of ``(module, args)``; those that are losses are in tests/models/losses.py. Sizes are
small and odd on purpose. Each must spend at least 60% of the bytes that it moves outside matrix products, convolutions
and attention in generated kernels; tests/models/test_modules.py prints the share.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import tests.models.losses  # noqa: F401, which registers its modules
from tests.models.registry import MODULES, module

__all__ = ["MODULES"]


@module((5, 37, 96))
class PreNormFeedForward(nn.Module):
    """Layer norm, two linears, exact GELU, residual scale."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(96)
        self.up = nn.Linear(96, 200)
        self.down = nn.Linear(200, 96)
        self.scale = nn.Parameter(torch.full((96,), 0.1))

    def forward(self, x: Tensor) -> Tensor:
        hidden = F.gelu(self.up(self.norm(x)) * 1.5 + 0.1)
        return x + self.scale * self.down(hidden) / math.sqrt(2.0)


@module((4, 33, 64))
class PostNormGate(nn.Module):
    """A sigmoid gate around a residual, normalized afterwards."""

    def __init__(self) -> None:
        super().__init__()
        self.value = nn.Linear(64, 64)
        self.gate = nn.Linear(64, 64)
        self.norm = nn.LayerNorm(64, eps=1e-6)

    def forward(self, x: Tensor) -> Tensor:
        gate = torch.sigmoid(self.gate(x) - 1.0)
        mixed = gate * torch.tanh(self.value(x)) + (1.0 - gate) * x
        return self.norm(mixed + x)


@module((3, 50, 80))
class RmsSwiGlu(nn.Module):
    """RMS norm written out, SwiGLU and a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(80))
        self.gate = nn.Linear(80, 112, bias=False)
        self.up = nn.Linear(80, 112, bias=False)
        self.down = nn.Linear(112, 80, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        variance = x.pow(2).mean(-1, keepdim=True)
        hidden = x * torch.rsqrt(variance + 1e-6) * self.weight
        return x + self.down(F.silu(self.gate(hidden)) * self.up(hidden))


@module((2, 4, 31, 31))
class ScoreSoftmax(nn.Module):
    """Masked, scaled, biased softmax of attention scores, written by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.randn(4, 1, 1))

    def forward(self, scores: Tensor) -> Tensor:
        seq = scores.shape[-1]
        causal = torch.ones(seq, seq, dtype=torch.bool).tril()
        scaled = scores / math.sqrt(seq) + self.bias
        masked = scaled.masked_fill(~causal, float("-inf"))
        weights = torch.softmax(masked, dim=-1)
        return weights * (weights > 0.01) + 1e-6


@module((3, 29, 48))
class AlibiAttentionWeights(nn.Module):
    """Attention weights with linear position penalties."""

    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Linear(48, 48)
        self.key = nn.Linear(48, 48)

    def forward(self, x: Tensor) -> Tensor:
        batch, seq, dim = x.shape
        query = self.query(x).view(batch, seq, 4, dim // 4).transpose(1, 2)
        key = self.key(x).view(batch, seq, 4, dim // 4).transpose(1, 2)
        position = torch.arange(seq)
        distance = (position[None, :] - position[:, None]).abs()
        slopes = torch.tensor([0.5, 0.25, 0.125, 0.0625]).view(4, 1, 1)
        scores = query @ key.transpose(-2, -1) * dim**-0.5 - slopes * distance
        return F.softmax(scores, dim=-1)


@module((2, 6, 40, 32))
class Rotary(nn.Module):
    """Rotary position embedding and the norm of the result."""

    def __init__(self) -> None:
        super().__init__()
        frequency = 1.0 / (10000 ** (torch.arange(0, 32, 2) / 32))
        angle = torch.outer(torch.arange(40.0), frequency)
        self.register_buffer("cos", torch.cat([angle.cos(), angle.cos()], -1))
        self.register_buffer("sin", torch.cat([angle.sin(), angle.sin()], -1))

    def forward(self, x: Tensor) -> Tensor:
        half = x.shape[-1] // 2
        rotated = torch.cat((-x[..., half:], x[..., :half]), dim=-1)
        embedded = x * self.cos + rotated * self.sin
        return embedded / (embedded.norm(dim=-1, keepdim=True) + 1e-6)


@module((4, 10, 17, 19))
class BatchNormEval(nn.Module):
    """Batch norm in eval, ReLU6, squeeze and excitation."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(10)
        self.squeeze = nn.Linear(10, 4)
        self.excite = nn.Linear(4, 10)
        nn.init.normal_(self.norm.running_mean)
        nn.init.uniform_(self.norm.running_var, 0.5, 2.0)

    def forward(self, x: Tensor) -> Tensor:
        hidden = F.relu6(self.norm(x) + 1.0)
        pooled = hidden.mean(dim=(2, 3))
        scale = torch.sigmoid(self.excite(F.relu(self.squeeze(pooled))))
        return x + hidden * scale[:, :, None, None]


@module((3, 12, 15, 13))
class GroupNormSilu(nn.Module):
    """Group norm, SiLU and a per-channel shift, as in diffusion models."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(4, 12)
        self.shift = nn.Parameter(torch.randn(12))
        self.scale = nn.Parameter(torch.randn(12))

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.norm(x) * (1.0 + self.scale[:, None, None]) + self.shift[:, None, None]
        return F.silu(hidden) * 0.5 + x / math.sqrt(2.0)


@module((2, 8, 21, 23))
class InstanceStatistics(nn.Module):
    """Adaptive instance normalization from its definition."""

    def __init__(self) -> None:
        super().__init__()
        self.style = nn.Parameter(torch.randn(2, 8))

    def forward(self, x: Tensor) -> Tensor:
        mean = x.mean(dim=(2, 3), keepdim=True)
        std = (x.var(dim=(2, 3), keepdim=True, unbiased=False) + 1e-5).sqrt()
        scale, shift = self.style[0].exp(), self.style[1]
        return F.leaky_relu((x - mean) / std * scale[:, None, None] + shift[:, None, None], 0.2)


@module((6, 25, 36))
class TokenMixer(nn.Module):
    """An MLP-Mixer block's token half, over the transposed tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(36)
        self.up = nn.Linear(25, 50)
        self.down = nn.Linear(50, 25)

    def forward(self, x: Tensor) -> Tensor:
        mixed = self.norm(x).transpose(1, 2)
        mixed = self.down(F.gelu(self.up(mixed), approximate="tanh")).transpose(1, 2)
        return (x + mixed).clamp(-3.0, 3.0) * 0.5


@module((5, 41, 24))
class AttentionPooling(nn.Module):
    """A learned softmax pool over the sequence, with its variance."""

    def __init__(self) -> None:
        super().__init__()
        self.score = nn.Parameter(torch.randn(24))

    def forward(self, x: Tensor) -> Tensor:
        weights = torch.softmax((torch.tanh(x) * self.score).sum(-1), dim=-1)[..., None]
        mean = (weights * x).sum(dim=1)
        variance = (weights * (x - mean[:, None]) ** 2).sum(dim=1)
        return torch.cat([mean, variance.clamp_min(1e-6).sqrt()], dim=-1)


@module((7, 30, 20))
class MinGruStep(nn.Module):
    """One step of a gated recurrent cell over many sequences, and the mean state."""

    def __init__(self) -> None:
        super().__init__()
        self.inputs = nn.Linear(20, 60)
        self.hidden = nn.Linear(20, 60)

    def forward(self, x: Tensor) -> Tensor:
        state = x.roll(1, dims=1)
        reset_x, update_x, new_x = self.inputs(x).chunk(3, dim=-1)
        reset_h, update_h, new_h = self.hidden(state).chunk(3, dim=-1)
        reset, update = torch.sigmoid(reset_x + reset_h), torch.sigmoid(update_x + update_h)
        new = torch.tanh(new_x + reset * new_h)
        return ((1 - update) * new + update * state).mean(dim=1)


@module((4, 18, 26))
class SelectiveGate(nn.Module):
    """The elementwise part of a state-space block."""

    def __init__(self) -> None:
        super().__init__()
        self.decay = nn.Parameter(torch.randn(26))
        self.skip = nn.Parameter(torch.randn(26))

    def forward(self, x: Tensor) -> Tensor:
        delta = F.softplus(x + 0.5)
        decay = torch.exp(-delta * torch.exp(self.decay))
        state = decay * x + (1 - decay) * x.flip(1)
        gated = (state + self.skip * x) * F.silu(x)
        return gated / (gated.abs().amax(dim=-1, keepdim=True) + 1e-4)


@module((9, 28))
class ExpertRouter(nn.Module):
    """Top-1 routing weights of a mixture of experts, with the load-balancing loss."""

    def __init__(self) -> None:
        super().__init__()
        self.route = nn.Linear(28, 6)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        probability = torch.softmax(self.route(x * 1.1 - 0.05), dim=-1)
        weight, expert = probability.max(dim=-1)
        load = (expert[:, None] == torch.arange(6)).float().mean(dim=0)
        balance = (load * probability.mean(dim=0)).sum() * 6.0
        return x * weight[:, None], expert, balance


@module((6, 33))
class QuantizeDequantize(nn.Module):
    """Symmetric int8 quantization per row and back."""

    def forward(self, x: Tensor) -> Tensor:
        scale = x.abs().amax(dim=-1, keepdim=True).clamp_min(1e-8) / 127.0
        quantized = torch.clamp(torch.round(x / scale), -128, 127).to(torch.int8)
        restored = quantized.to(torch.float32) * scale
        error = (restored - x).pow(2).mean(dim=-1, keepdim=True)
        return restored + error.sqrt() * 0.0 + error


@module((4, 22, 16))
class FourierFeatures(nn.Module):
    """Sine and cosine features of coordinates, normalized."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("frequency", torch.randn(16))

    def forward(self, x: Tensor) -> Tensor:
        angle = 2 * math.pi * x * self.frequency
        features = torch.cat([angle.sin(), angle.cos()], dim=-1)
        centered = features - features.mean(dim=-1, keepdim=True)
        return centered / (centered.std(dim=-1, keepdim=True) + 1e-5)


@module((3, 5, 14, 14))
class LocalContrast(nn.Module):
    """Gradient magnitude of an image from shifted slices, normalized per image."""

    def forward(self, x: Tensor) -> Tensor:
        padded = F.pad(x, (1, 1, 1, 1))
        dx = padded[..., 1:-1, 2:] - padded[..., 1:-1, :-2]
        dy = padded[..., 2:, 1:-1] - padded[..., :-2, 1:-1]
        magnitude = torch.sqrt(dx * dx + dy * dy + 1e-8)
        return magnitude / magnitude.amax(dim=(1, 2, 3), keepdim=True)


@module((3, 8, 12, 12))
class ConvNextTail(nn.Module):
    """The pointwise part of a ConvNeXt block: channels-last norm, GELU, layer scale."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.up = nn.Linear(8, 32)
        self.down = nn.Linear(32, 8)
        self.gamma = nn.Parameter(torch.full((8,), 0.3))

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.norm(x.permute(0, 2, 3, 1))
        hidden = self.gamma * self.down(F.gelu(self.up(hidden)))
        return x + hidden.permute(0, 3, 1, 2)


@module((5, 27, 32))
class EmbeddingHead(nn.Module):
    """Token and position embeddings, a norm, and the tied head's log probability of the next token."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(101, 32)
        self.positions = nn.Embedding(27, 32)
        self.norm = nn.LayerNorm(32)

    def forward(self, x: Tensor) -> Tensor:
        ids = (x[..., 0].abs() * 31).long() % 101
        hidden = self.tokens(ids) + self.positions(torch.arange(ids.shape[1]))
        hidden = self.norm(hidden + 0.1 * x)
        logp = F.log_softmax(hidden @ self.tokens.weight.t(), dim=-1)
        return logp[:, :-1].gather(-1, ids[:, 1:, None]).squeeze(-1).mean(dim=-1)
