"""Models that transformers has not, written as people write them; sizes are arguments: tests make small ones."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

__all__ = [
    "CachedDecoder",
    "DenseNet",
    "DiT",
    "DiffusionUNet",
    "GRUByHand",
    "GraphConvolutions",
    "Recommender",
]

_VOCABULARY = 8192


class _CachedBlock(nn.Module):
    def __init__(self, width: int, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.norm_1, self.norm_2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.proj = nn.Linear(width, width, bias=False)
        self.gate, self.up = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, 3 * width, bias=False)
        self.down = nn.Linear(3 * width, width, bias=False)

    def forward(
        self, x: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, position: torch.Tensor
    ) -> torch.Tensor:
        q, k, v = self.qkv(self.norm_1(x)).unflatten(-1, (3, self.n_heads, -1)).transpose(1, 3).unbind(2)
        keys[:, :, position] = k
        values[:, :, position] = v
        mask = torch.arange(keys.shape[2], device=x.device)[None] <= position
        mixed = F.scaled_dot_product_attention(q, keys, values, attn_mask=mask)
        x = x + self.proj(mixed.transpose(1, 2).flatten(2))
        h = self.norm_2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class CachedDecoder(nn.Module):
    """One token of a decoder that keeps keys and values; the same position is written again in each call."""

    def __init__(self, width: int = 768, n_layers: int = 12, n_heads: int = 12) -> None:
        super().__init__()
        self.embedding = nn.Embedding(_VOCABULARY, width)
        self.blocks = nn.ModuleList(_CachedBlock(width, n_heads) for _ in range(n_layers))
        self.norm = nn.RMSNorm(width)

    def forward(
        self, tokens: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, position: torch.Tensor
    ) -> torch.Tensor:
        """Logits of the next token: tokens (batch, 1), caches (layer, batch, head, seq, width of a head)."""
        x = self.embedding(tokens)
        for layer, block in enumerate(self.blocks):
            x = block(x, keys[layer], values[layer], position)
        return F.linear(self.norm(x), self.embedding.weight)

    @staticmethod
    def inputs(batch: int, n_layers: int = 12, n_heads: int = 12, seq: int = 1024) -> dict[str, torch.Tensor]:
        """A cache that is half full."""
        shape = (n_layers, batch, n_heads, seq, 64)
        return {
            "tokens": torch.randint(_VOCABULARY, (batch, 1)),
            "keys": torch.randn(shape),
            "values": torch.randn(shape),
            "position": torch.tensor([seq // 2]),
        }


class _DenseLayer(nn.Module):
    def __init__(self, n_in: int, growth: int) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = nn.BatchNorm2d(n_in), nn.BatchNorm2d(4 * growth)
        self.conv_1 = nn.Conv2d(n_in, 4 * growth, 1, bias=False)
        self.conv_2 = nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        new = self.conv_2(F.relu(self.norm_2(self.conv_1(F.relu(self.norm_1(x))))))
        return torch.cat([x, new], 1)


class DenseNet(nn.Module):
    """Densely connected blocks with transitions between them (DenseNet-121's widths, shorter blocks)."""

    def __init__(self, layers: tuple[int, ...] = (4, 6, 8, 6), growth: int = 32, width: int = 64) -> None:
        super().__init__()
        parts: list[nn.Module] = [
            nn.Conv2d(3, width, 7, 2, 3, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.MaxPool2d(3, 2, 1),
        ]
        for number, n_layers in enumerate(layers):
            for _ in range(n_layers):
                parts.append(_DenseLayer(width, growth))
                width += growth
            if number + 1 < len(layers):
                parts += [nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, width // 2, 1, bias=False)]
                parts.append(nn.AvgPool2d(2))
                width //= 2
        self.features = nn.Sequential(*parts)
        self.head = nn.Linear(width, 1000)

    def forward(self, pixel_values: torch.Tensor) -> torch.Tensor:
        """Class scores of images (batch, 3, height, width)."""
        return self.head(F.relu(self.features(pixel_values)).mean((2, 3)))


class _Residual(nn.Module):
    def __init__(self, n_in: int, n_out: int, n_time: int) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = nn.GroupNorm(8, n_in), nn.GroupNorm(8, n_out)
        self.conv_1 = nn.Conv2d(n_in, n_out, 3, padding=1)
        self.conv_2 = nn.Conv2d(n_out, n_out, 3, padding=1)
        self.time = nn.Linear(n_time, n_out)
        self.skip = nn.Conv2d(n_in, n_out, 1) if n_in != n_out else nn.Identity()

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        h = self.conv_1(F.silu(self.norm_1(x))) + self.time(F.silu(time))[:, :, None, None]
        return self.skip(x) + self.conv_2(F.silu(self.norm_2(h)))


class DiffusionUNet(nn.Module):
    """Residual blocks told the time, down and up again, with skips: what predicts the noise of an image."""

    def __init__(self, widths: tuple[int, ...] = (128, 256, 256)) -> None:
        super().__init__()
        n_time = widths[0]
        self.first = nn.Conv2d(4, widths[0], 3, padding=1)
        self.time = nn.Sequential(nn.Linear(n_time, n_time), nn.SiLU(), nn.Linear(n_time, n_time))
        pairs = [*zip((widths[0], *widths), widths, strict=False)]
        self.down = nn.ModuleList(_Residual(n_in, n_out, n_time) for n_in, n_out in pairs)
        self.middle = _Residual(widths[-1], widths[-1], n_time)
        self.up = nn.ModuleList(_Residual(2 * n_out, n_in, n_time) for n_in, n_out in reversed(pairs))
        self.last = nn.Conv2d(widths[0], 4, 3, padding=1)

    def forward(self, noisy: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        """The noise in images (batch, 4, height, width); the time as an embedding (batch, width)."""
        time = self.time(time)
        x, skips = self.first(noisy), []
        for block in self.down:
            x = block(x, time)
            skips.append(x)
            x = F.avg_pool2d(x, 2)
        x = self.middle(x, time)
        for block in self.up:
            x = F.interpolate(x, scale_factor=2.0, mode="nearest")
            x = block(torch.cat([x, skips.pop()], 1), time)
        return self.last(x)

    @staticmethod
    def inputs(batch: int, size: int = 64, n_time: int = 128) -> dict[str, torch.Tensor]:
        """Noise and a time."""
        return {"noisy": torch.randn(batch, 4, size, size), "time": torch.randn(batch, n_time)}


class _DiTBlock(nn.Module):
    def __init__(self, width: int, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.modulation = nn.Linear(width, 6 * width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor, condition: torch.Tensor) -> torch.Tensor:
        shift_1, scale_1, gate_1, shift_2, scale_2, gate_2 = self.modulation(F.silu(condition))[
            :, None
        ].chunk(6, -1)
        h = self.norm(x) * (1 + scale_1) + shift_1
        q, k, v = self.qkv(h).unflatten(-1, (3, self.n_heads, -1)).transpose(1, 3).unbind(2)
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        x = x + gate_1 * self.proj(mixed)
        h = self.norm(x) * (1 + scale_2) + shift_2
        return x + gate_2 * self.narrow(F.gelu(self.widen(h), approximate="tanh"))


class DiT(nn.Module):
    """A diffusion transformer: layer norms whose scale and shift are told by the condition."""

    def __init__(self, width: int = 768, n_layers: int = 8, n_heads: int = 12) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(_DiTBlock(width, n_heads) for _ in range(n_layers))

    def forward(self, patches: torch.Tensor, condition: torch.Tensor) -> torch.Tensor:
        """Patches (batch, patch, width), changed; the condition (batch, width)."""
        for block in self.blocks:
            patches = block(patches, condition)
        return patches

    @staticmethod
    def inputs(batch: int, n_patches: int = 256, width: int = 768) -> dict[str, torch.Tensor]:
        """Patches and a condition."""
        return {"patches": torch.randn(batch, n_patches, width), "condition": torch.randn(batch, width)}


class Recommender(nn.Module):
    """As DLRM: embeddings of categories and numbers, their products two by two, and a network above."""

    def __init__(self, n_tables: int = 26, table_size: int = 10_000, width: int = 64) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(table_size, width) for _ in range(n_tables))
        self.bottom = nn.Sequential(nn.Linear(13, 256), nn.ReLU(), nn.Linear(256, width), nn.ReLU())
        rows, cols = torch.tril_indices(n_tables + 1, n_tables + 1, -1)
        self.register_buffer("rows", rows)
        self.register_buffer("cols", cols)
        n_pairs = (n_tables + 1) * n_tables // 2
        self.top = nn.Sequential(nn.Linear(n_pairs + width, 512), nn.ReLU(), nn.Linear(512, 1))

    def forward(self, numbers: torch.Tensor, categories: torch.Tensor) -> torch.Tensor:
        """A score each: numbers (batch, 13), categories (batch, table)."""
        dense = self.bottom(numbers)
        sparse = [table(categories[:, k]) for k, table in enumerate(self.tables)]
        features = torch.stack([dense, *sparse], 1)
        products = torch.bmm(features, features.transpose(1, 2))
        pairs = products[:, self.rows, self.cols]
        return torch.sigmoid(self.top(torch.cat([dense, pairs], 1)))

    @staticmethod
    def inputs(batch: int, n_tables: int = 26, table_size: int = 10_000) -> dict[str, torch.Tensor]:
        """Numbers and categories."""
        return {
            "numbers": torch.randn(batch, 13),
            "categories": torch.randint(table_size, (batch, n_tables)),
        }


class GRUByHand(nn.Module):
    """A gated recurrent unit as a loop over time, as it stands in many a paper's code."""

    def __init__(self, n_in: int = 128, width: int = 512) -> None:
        super().__init__()
        self.width = width
        self.given, self.kept = nn.Linear(n_in, 3 * width), nn.Linear(width, 3 * width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The last state: x (batch, step, n_in) -> (batch, width)."""
        state = x.new_zeros(x.shape[0], self.width)
        for step in range(x.shape[1]):
            reset, update, new = self.given(x[:, step]).chunk(3, -1)
            old_reset, old_update, old_new = self.kept(state).chunk(3, -1)
            reset, update = torch.sigmoid(reset + old_reset), torch.sigmoid(update + old_update)
            state = torch.lerp(torch.tanh(new + reset * old_new), state, update)
        return state

    @staticmethod
    def inputs(batch: int, n_steps: int = 32, n_in: int = 128) -> dict[str, torch.Tensor]:
        """A sequence."""
        return {"x": torch.randn(batch, n_steps, n_in)}


class GraphConvolutions(nn.Module):
    """Three graph convolutions over a list of edges: gather, scale, add up where they lead."""

    def __init__(self, n_in: int = 128, width: int = 256) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(n, width) for n in (n_in, width, width))

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        """Features of nodes: x (node, n_in), edges (2, edge) -> (node, width)."""
        source, target = edges
        degree = x.new_zeros(x.shape[0]).index_add(0, target, x.new_ones(target.shape[0])).clamp(min=1)
        scale = degree.rsqrt()
        weight = (scale[source] * scale[target])[:, None]
        for layer in self.layers:
            h = layer(x)
            x = F.relu(torch.zeros_like(h).index_add(0, target, h[source] * weight))
        return x

    @staticmethod
    def inputs(
        batch: int, n_nodes: int = 2048, n_edges: int = 8192, n_in: int = 128
    ) -> dict[str, torch.Tensor]:
        """`batch` graphs as one."""
        return {
            "x": torch.randn(batch * n_nodes, n_in),
            "edges": torch.randint(batch * n_nodes, (2, batch * n_edges)),
        }
