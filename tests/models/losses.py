"""Modules that are losses, distances and likelihoods: a part of those of tests/models/modules.py."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.models.registry import module


@module((37, 55), (37, 55))
class ContrastiveLoss(nn.Module):
    """Symmetric cross entropy of normalized embeddings (CLIP)."""

    def __init__(self) -> None:
        super().__init__()
        self.log_scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, image: Tensor, text: Tensor) -> Tensor:
        image = image / image.norm(dim=-1, keepdim=True)
        text = text / text.norm(dim=-1, keepdim=True)
        logits = self.log_scale.exp() * image @ text.t()
        labels = torch.arange(logits.shape[0])
        return (F.cross_entropy(logits, labels) + F.cross_entropy(logits.t(), labels)) / 2


@module((43, 67))
class LabelSmoothing(nn.Module):
    """Cross entropy with label smoothing, from log_softmax."""

    def forward(self, logits: Tensor) -> Tensor:
        target = torch.arange(logits.shape[0]) % logits.shape[1]
        logp = F.log_softmax(logits * 0.7 + 0.1, dim=-1)
        nll = -logp.gather(1, target[:, None]).squeeze(1)
        smooth = -logp.mean(dim=-1)
        return (0.9 * nll + 0.1 * smooth).mean()


@module((29, 40), (29, 40))
class HuberAndKl(nn.Module):
    """A distillation loss: KL divergence at a temperature and a Huber term."""

    def forward(self, student: Tensor, teacher: Tensor) -> Tensor:
        student_logp = F.log_softmax(student / 2.0, dim=-1)
        teacher_p = F.softmax(teacher / 2.0, dim=-1)
        kl = (teacher_p * (teacher_p.clamp_min(1e-8).log() - student_logp)).sum(-1).mean()
        difference = (student - teacher).abs()
        huber = torch.where(difference < 1.0, 0.5 * difference**2, difference - 0.5).mean()
        return kl * 4.0 + 0.1 * huber


@module((31, 44), (31, 44))
class GaussianNll(nn.Module):
    """Negative log likelihood under a diagonal normal, with a softplus scale."""

    def forward(self, mean: Tensor, raw: Tensor) -> Tensor:
        scale = F.softplus(raw) + 1e-3
        residual = (mean - 0.5) / scale
        logp = -0.5 * residual**2 - torch.log(scale) - 0.5 * math.log(2 * math.pi)
        return -logp.sum(dim=-1)


@module((40, 3), (52, 3))
class RadialBasis(nn.Module):
    """Pairwise distances expanded in Gaussians and summed with a smooth cutoff, as in force fields."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("centers", torch.linspace(0.0, 4.0, 16))

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        offset = source[:, None, :] - target[None, :, :]
        distance = torch.sqrt((offset * offset).sum(-1) + 1e-9)
        cutoff = 0.5 * (torch.cos(distance * (math.pi / 4.0)) + 1.0) * (distance < 4.0)
        basis = torch.exp(-4.0 * (distance[..., None] - self.centers) ** 2)
        return (basis * cutoff[..., None]).sum(dim=1)


@module((26, 45))
class StudentAssignment(nn.Module):
    """Soft cluster assignment with Student's t kernel and its sharpened target."""

    def __init__(self) -> None:
        super().__init__()
        self.centers = nn.Parameter(torch.randn(7, 45))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        squared = ((x[:, None, :] - self.centers[None]) ** 2).sum(-1)
        kernel = 1.0 / (1.0 + squared)
        soft = kernel / kernel.sum(dim=1, keepdim=True)
        weight = soft**2 / soft.sum(dim=0)
        return soft, weight / weight.sum(dim=1, keepdim=True)
