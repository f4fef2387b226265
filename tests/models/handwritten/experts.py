"""Mixtures of experts."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.models.handwritten.registry import model, normal


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
