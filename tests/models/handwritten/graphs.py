"""Graph networks."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.models.handwritten.registry import below, model, normal


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


@model(normal(24, 16), below(24, 2, 60), normal(60, 1))
class GraphLayers(nn.Module):
    """Equal layers in float16, the last one's result the model's; messages from rows counted from the end."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(16, 16, dtype=torch.float16) for _ in range(3))

    def forward(self, x: Tensor, edges: Tensor, weight: Tensor) -> Tensor:
        source, target = edges[0] - x.shape[0], edges[1]
        x, weight = x.half(), weight.half()
        for layer in self.layers:
            h = layer(x)
            x = F.relu(torch.zeros_like(h).index_add(0, target, h[source] * weight))
        return x
