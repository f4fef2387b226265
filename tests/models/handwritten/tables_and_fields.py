"""Click models, densities, radiance fields, sets, flows."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.models.handwritten.registry import below, model, normal


@model(normal(5, 4), below(30, 5, 3))
class ClickModel(nn.Module):
    """DLRM: embeddings, pairwise products of features, two perceptrons."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(30, 8) for _ in range(3)])
        self.bottom = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(14, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, dense: Tensor, sparse: Tensor) -> Tensor:
        x = self.bottom(dense)
        rows = [table(sparse[:, i]) for i, table in enumerate(self.tables)]
        features = torch.stack([x, *rows], dim=1)
        products = torch.bmm(features, features.transpose(1, 2))
        i, j = torch.tril_indices(4, 4, offset=-1)
        return torch.sigmoid(self.top(torch.cat([x, products[:, i, j]], dim=1))).squeeze(1)


@model(normal(7, 3), normal(7, 2))
class MixtureDensity(nn.Module):
    """A mixture density network and its negative log likelihood."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 16), nn.Tanh())
        self.weights = nn.Linear(16, 4)
        self.means = nn.Linear(16, 8)
        self.scales = nn.Linear(16, 8)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        h = self.body(x)
        log_weights = F.log_softmax(self.weights(h), -1)
        mean, scale = self.means(h).view(-1, 4, 2), F.softplus(self.scales(h)).view(-1, 4, 2) + 1e-3
        z = (y[:, None] - mean) / scale
        log_p = (-0.5 * z**2 - scale.log() - 0.5 * math.log(2 * math.pi)).sum(-1)
        return -torch.logsumexp(log_weights + log_p, dim=-1).mean()


@model(normal(6, 5, 3), normal(6, 3))
class RadianceField(nn.Module):
    """NeRF: positional encoding of points, a perceptron, and compositing along rays."""

    def __init__(self) -> None:
        super().__init__()
        self.density = nn.Sequential(nn.Linear(27, 32), nn.ReLU(), nn.Linear(32, 33))
        self.color = nn.Sequential(nn.Linear(35, 16), nn.ReLU(), nn.Linear(16, 3))

    def encode(self, x: Tensor) -> Tensor:
        bands = 2.0 ** torch.arange(4, device=x.device)
        angle = x[..., None, :] * bands[:, None] * math.pi
        return torch.cat([x, angle.sin().flatten(-2), angle.cos().flatten(-2)], dim=-1)

    def forward(self, points: Tensor, directions: Tensor) -> tuple[Tensor, Tensor]:
        h = self.density(self.encode(points))
        sigma, feature = F.relu(h[..., 0]), h[..., 1:]
        view = F.normalize(directions, dim=-1)[:, None].expand(-1, points.shape[1], -1)
        rgb = torch.sigmoid(self.color(torch.cat([feature, view], -1)))
        delta = torch.linalg.norm(points[:, 1:] - points[:, :-1], dim=-1)
        delta = torch.cat([delta, torch.full_like(delta[:, :1], 1e10)], -1)
        alpha = 1 - torch.exp(-sigma * delta)
        through = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha + 1e-10], -1), -1)[:, :-1]
        weight = alpha * through
        return (weight[..., None] * rgb).sum(1), weight.sum(1)


@model(normal(4, 9, 5), below(2, 4, 9))
class DeepSets(nn.Module):
    """A permutation-invariant network over masked sets: mean, maximum and log-sum-exp pooled."""

    def __init__(self) -> None:
        super().__init__()
        self.phi = nn.Sequential(nn.Linear(5, 16), nn.ELU(), nn.Linear(16, 16))
        self.rho = nn.Sequential(nn.Linear(48, 8), nn.ELU(), nn.Linear(8, 1))

    def forward(self, x: Tensor, present: Tensor) -> Tensor:
        mask = present.bool()
        h = self.phi(x)
        count = mask.sum(1, keepdim=True).clamp(min=1)
        mean = (h * mask[..., None]).sum(1) / count
        hidden = h.masked_fill(~mask[..., None], -1e4)
        pooled = torch.cat([mean, hidden.amax(1), hidden.logsumexp(1)], -1)
        return self.rho(pooled)


@model(normal(6, 8))
class CouplingFlow(nn.Module):
    """Two affine couplings of a normalizing flow, with the log determinant and log likelihood."""

    def __init__(self) -> None:
        super().__init__()
        self.nets = nn.ModuleList(
            [nn.Sequential(nn.Linear(4, 16), nn.LeakyReLU(0.1), nn.Linear(16, 8)) for _ in range(2)]
        )

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        log_det = x.new_zeros(x.shape[0])
        for net in self.nets:
            kept, changed = x.chunk(2, dim=-1)
            scale, shift = net(kept).chunk(2, dim=-1)
            scale = torch.tanh(scale)
            changed = changed * torch.exp(scale) + shift
            log_det = log_det + scale.sum(-1)
            x = torch.cat([changed, kept], dim=-1)
        log_p = -0.5 * (x**2 + math.log(2 * math.pi)).sum(-1)
        return x, log_p + log_det


@model(normal(2, 7, 24), normal(2, 5, 24))
class RelativeShift(nn.Module):
    """Transformer-XL: memory, content and position terms, and the shift of padded scores."""

    def __init__(self) -> None:
        super().__init__()
        self.q = nn.Linear(24, 24, bias=False)
        self.kv = nn.Linear(24, 48, bias=False)
        self.r = nn.Linear(24, 24, bias=False)
        self.u = nn.Parameter(torch.randn(3, 8) * 0.2)
        self.v = nn.Parameter(torch.randn(3, 8) * 0.2)

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        b, s, d = x.shape
        context = torch.cat([memory, x], dim=1)
        t = context.shape[1]
        position = torch.arange(t - 1, -1, -1.0)
        angle = torch.outer(position, 1 / (10000 ** (torch.arange(0.0, d, 2.0) / d)))
        r = self.r(torch.cat([angle.sin(), angle.cos()], -1)).view(t, 3, 8)
        q = self.q(x).view(b, s, 3, 8)
        k, v = (part.view(b, t, 3, 8) for part in self.kv(context).chunk(2, -1))
        content = torch.einsum("bihd,bjhd->bhij", q + self.u, k)
        shifted = torch.einsum("bihd,jhd->bhij", q + self.v, r)
        zero = torch.zeros(b, 3, s, 1)
        shifted = torch.cat([zero, shifted], -1).view(b, 3, t + 1, s)[:, :, 1:].view(b, 3, s, t)
        mask = torch.triu(torch.ones(s, t, dtype=torch.bool), 1 + t - s)
        scores = ((content + shifted) * 8**-0.5).masked_fill(mask, float("-inf"))
        return torch.einsum("bhij,bjhd->bihd", scores.softmax(-1), v).reshape(b, s, d)
