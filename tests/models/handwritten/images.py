"""Parts of image models, losses and lookups."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.models.handwritten.registry import below, model, normal


@model(normal(2, 4, 8, 8))
class DenseTransition(nn.Module):
    """DenseNet's transition: batch norm, relu, a 1x1 convolution and average pooling."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(4)
        self.conv = nn.Conv2d(4, 2, 1, bias=False)
        self.pool = nn.AvgPool2d(2)

    def forward(self, x: Tensor) -> Tensor:
        return self.pool(self.conv(F.relu(self.norm(x))))


@model(normal(2, 3, 16, 16))
class PatchEmbedding(nn.Module):
    """ViT's beginning: patches, a class token in front, interpolated positions, and layer norm."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, 12, 4, 4)
        self.token = nn.Parameter(torch.randn(1, 1, 12))
        self.register = nn.Parameter(torch.randn(1, 2, 12))
        self.position = nn.Parameter(torch.randn(1, 17, 12))
        self.norm = nn.LayerNorm(12)

    def forward(self, x: Tensor) -> Tensor:
        h = self.patch(x).flatten(2).transpose(1, 2)
        h = torch.cat([self.token.expand(h.shape[0], -1, -1), h], dim=1) + self.position
        h = torch.cat([h[:, :1], self.register.expand(h.shape[0], -1, -1), h[:, 1:]], dim=1)
        return self.norm(h)[:, 0]


@model(normal(3, 10), normal(3, 10), normal(3, 10))
class TripletLoss(nn.Module):
    """Cosine and Euclidean triplet losses with a margin."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(10, 6)

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        a, p, n = (F.normalize(self.embed(t), dim=-1) for t in (anchor, positive, negative))
        near = (a - p).pow(2).sum(-1).clamp_min(1e-12).sqrt()
        far = (a - n).pow(2).sum(-1).clamp_min(1e-12).sqrt()
        return F.relu(near - far + 0.3).mean() + (1 - F.cosine_similarity(a, p)).mean() * 0.1


@model(normal(2, 6, 20))
class LinearAttention(nn.Module):
    """Attention with elu + 1 as the kernel, causal by cumulative sums."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(20, 60)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q, k = F.elu(q) + 1, F.elu(k) + 1
        state = torch.cumsum(k[..., :, None] * v[..., None, :], dim=1)
        norm = (q * torch.cumsum(k, dim=1)).sum(-1, keepdim=True) + 1e-6
        return torch.einsum("bsd,bsde->bse", q, state) / norm


@model(normal(2, 6, 10, 10))
class GlobalResponse(nn.Module):
    """ConvNeXt V2's global response normalization after a depthwise convolution, and stochastic depth's scale."""

    def __init__(self) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(6, 6, 7, padding=3, groups=6)
        self.gamma = nn.Parameter(torch.randn(6) * 0.3)
        self.beta = nn.Parameter(torch.randn(6) * 0.3)

    def forward(self, x: Tensor) -> Tensor:
        h = self.depthwise(x).permute(0, 2, 3, 1)
        g = torch.norm(h, p=2, dim=(1, 2), keepdim=True)
        h = self.gamma * (h * (g / (g.mean(dim=-1, keepdim=True) + 1e-6))) + self.beta + h
        return x + h.permute(0, 3, 1, 2)


@model(below(50, 3, 8), below(50, 3, 8))
class SkipGram(nn.Module):
    """Word vectors with negative sampling."""

    def __init__(self) -> None:
        super().__init__()
        self.center = nn.Embedding(50, 12)
        self.context = nn.Embedding(50, 12, padding_idx=0)

    def forward(self, words: Tensor, others: Tensor) -> Tensor:
        score = (self.center(words) * self.context(others)).sum(-1)
        sign = torch.where(words % 2 == 0, 1.0, -1.0)
        return -F.logsigmoid(score * sign).mean()


@model(normal(2, 1, 12, 12))
class SpatialTransformer(nn.Module):
    """A grid made by hand from a predicted transformation, sampled bilinearly by gathers."""

    def __init__(self) -> None:
        super().__init__()
        self.theta = nn.Linear(144, 6)

    def forward(self, x: Tensor) -> Tensor:
        theta = self.theta(x.flatten(1)).view(-1, 2, 3) * 0.1 + torch.eye(2, 3)
        line = torch.linspace(-1, 1, 12)
        yy, xx = torch.meshgrid(line, line, indexing="ij")
        grid = torch.stack([xx, yy, torch.ones_like(xx)], -1).view(-1, 3)
        at = (grid @ theta.transpose(1, 2)).view(-1, 12, 12, 2)
        px = ((at[..., 0] + 1) * 5.5).clamp(0, 11)
        py = ((at[..., 1] + 1) * 5.5).clamp(0, 11)
        x0, y0 = px.floor().long().clamp(max=10), py.floor().long().clamp(max=10)
        wx, wy = px - x0, py - y0
        batch = torch.arange(x.shape[0])[:, None, None]

        def pick(yi: Tensor, xi: Tensor) -> Tensor:
            return x[batch, 0, yi, xi]

        top = pick(y0, x0) * (1 - wx) + pick(y0, x0 + 1) * wx
        bottom = pick(y0 + 1, x0) * (1 - wx) + pick(y0 + 1, x0 + 1) * wx
        return top * (1 - wy) + bottom * wy


@model(normal(2, 9, 16), below(9, 2))
class LastToken(nn.Module):
    """A classifier that reads the hidden state of each sequence's last token."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(16)
        self.score = nn.Linear(16, 3)

    def forward(self, hidden: Tensor, last: Tensor) -> Tensor:
        mask = torch.arange(hidden.shape[1])[None, :] <= last[:, None]
        mean = (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
        chosen = hidden[torch.arange(hidden.shape[0]), last]
        return self.score(self.norm(chosen + mean))


@model(normal(3, 6, 24, 24))
class ImageNorms(nn.Module):
    """Batch norm far from zero, of channels last and of too many pixels for one piece of each."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.BatchNorm2d(6)
        self.second = nn.BatchNorm2d(6, affine=False)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x * 0.01 + 3.0)
        x = x.contiguous(memory_format=torch.channels_last)
        return self.second(F.silu(x)) + x
