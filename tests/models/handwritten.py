"""Models as people write them by hand, beyond transformers' own: recurrent, graph, diffusion, experts, positions.

`HANDWRITTEN` maps a name to a factory of ``(module, args)``. Sizes are small, so that Triton's interpreter runs them
in seconds; tests/models/cuda_sweep.py makes a CUDA unit of each.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Factory = Callable[[], tuple[nn.Module, tuple[Any, ...]]]
HANDWRITTEN: dict[str, Factory] = {}


def model(*make: Callable[[], Tensor]) -> Callable[[type[nn.Module]], type[nn.Module]]:
    """Registers a module class, built without arguments and called with what `make` returns."""

    def register(cls: type[nn.Module]) -> type[nn.Module]:
        HANDWRITTEN[cls.__name__] = lambda: (cls(), tuple(one() for one in make))
        return cls

    return register


def normal(*shape: int) -> Callable[[], Tensor]:
    """A normal tensor."""
    return lambda: torch.randn(*shape)


def below(limit: int, *shape: int) -> Callable[[], Tensor]:
    """Whole numbers from 0 to below `limit`."""
    return lambda: torch.randint(0, limit, shape)


@model(normal(3, 5, 12))
class Gru(nn.Module):
    """A GRU cell by hand, over five steps."""

    def __init__(self) -> None:
        super().__init__()
        self.input = nn.Linear(12, 48)
        self.hidden = nn.Linear(16, 48)

    def forward(self, x: Tensor) -> Tensor:
        state = x.new_zeros(x.shape[0], 16)
        for step in range(x.shape[1]):
            cell_x = self.input(x[:, step])
            cell_h = self.hidden(state)
            reset_x, update_x, new_x = cell_x.chunk(3, -1)
            reset_h, update_h, new_h = cell_h.chunk(3, -1)
            reset = torch.sigmoid(reset_x + reset_h)
            update = torch.sigmoid(update_x + update_h)
            new = torch.tanh(new_x + reset * new_h)
            state = (1 - update) * new + update * state
        return state


class _GruCell(nn.Module):
    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.x = nn.Linear(dim, 3 * hidden)
        self.h = nn.Linear(hidden, 3 * hidden)

    def forward(self, x: Tensor, h: Tensor) -> Tensor:
        xr, xz, xn = self.x(x).chunk(3, dim=-1)
        hr, hz, hn = self.h(h).chunk(3, dim=-1)
        r = torch.sigmoid(xr + hr)
        z = torch.sigmoid(xz + hz)
        n = torch.tanh(xn + r * hn)
        return (1 - z) * n + z * h


@model(normal(4, 6, 10))
class GruWithCell(nn.Module):
    """The cell as a module of its own, called ``cell``."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = _GruCell(10, 16)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros(x.shape[0], 16, device=x.device)
        outs = []
        for t in range(x.shape[1]):
            h = self.cell(x[:, t], h)
            outs.append(h)
        return torch.stack(outs, dim=1)


@model(normal(3, 5, 12))
class Lstm(nn.Module):
    """An LSTM by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.gates = nn.Linear(12 + 16, 64)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h = torch.zeros(x.shape[0], 16)
        c = torch.zeros(x.shape[0], 16)
        for t in range(x.shape[1]):
            i, f, g, o = self.gates(torch.cat([x[:, t], h], dim=-1)).chunk(4, dim=-1)
            c = torch.sigmoid(f + 1.0) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
        return h, c


@model(normal(20, 8), below(20, 2, 50))
class GraphConvolution(nn.Module):
    """Two graph convolutions: messages added up with index_add, normalized by degree."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.second = nn.Linear(16, 4)

    def propagate(self, x: Tensor, edges: Tensor) -> Tensor:
        source, target = edges
        degree = torch.zeros(x.shape[0]).index_add(0, target, torch.ones(edges.shape[1]))
        norm = degree.clamp_min(1).rsqrt()
        messages = x[source] * (norm[source] * norm[target])[:, None]
        return torch.zeros_like(x).index_add(0, target, messages)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        x = F.relu(self.propagate(self.first(x), edges))
        return F.log_softmax(self.propagate(self.second(x), edges), dim=-1)


@model(normal(15, 8), below(15, 2, 40))
class GraphAttention(nn.Module):
    """Graph attention: a softmax over each node's edges, with scatter_reduce and index_add."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(8, 12, bias=False)
        self.source = nn.Parameter(torch.randn(12) * 0.3)
        self.target = nn.Parameter(torch.randn(12) * 0.3)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        source, target = edges[0], edges[1]
        h = self.project(x)
        score = F.leaky_relu((h @ self.source)[source] + (h @ self.target)[target], 0.2)
        largest = torch.full((x.shape[0],), -1e9).scatter_reduce(0, target, score, "amax")
        weight = torch.exp(score - largest[target])
        total = torch.zeros(x.shape[0]).index_add(0, target, weight)
        weight = weight / (total[target] + 1e-9)
        out = torch.zeros_like(h).index_add(0, target, h[source] * weight[:, None])
        return F.elu(out)


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


@model(normal(18, 12))
class DenseExperts(nn.Module):
    """A mixture of experts in which each expert sees all tokens, weighted by the top two."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(12, 4)
        self.up = nn.Parameter(torch.randn(4, 12, 20) * 0.2)
        self.down = nn.Parameter(torch.randn(4, 20, 12) * 0.2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        logits = self.gate(x)
        weights, chosen = torch.topk(torch.softmax(logits, dim=-1), 2, dim=-1)
        weights = weights / weights.sum(-1, keepdim=True)
        mask = F.one_hot(chosen, 4).to(x.dtype)
        combine = (weights[..., None] * mask).sum(1)
        hidden = F.silu(torch.einsum("td,edh->teh", x, self.up))
        out = torch.einsum("teh,ehd->ted", hidden, self.down)
        balance = (mask.sum(1).mean(0) * torch.softmax(logits, -1).mean(0)).sum() * 4
        return (combine[..., None] * out).sum(1), balance


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
