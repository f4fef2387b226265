"""A kernel of one operation is called by what it is for: what all its calls make, or the function they are part of."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

import longhand


def turned(q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    q_turned = torch.cat([q[..., :6] * cos, q[..., 6:]], dim=-1)
    k_turned = torch.cat([k[..., :6] * cos, k[..., 6:]], dim=-1)
    return q_turned, k_turned


class Turned(nn.Module):
    def forward(
        self, q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        q, k = turned(q, k, cos)
        return torch.sort(q, dim=-1)[0], torch.sort(k, dim=-1)[0]


class Joined(nn.Module):
    """One product of two tensors, under a name, that a library call reads."""

    def forward(self, x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        sample_weights = weights.sort(-1)[0]
        weighted_tokens = x * sample_weights
        return torch.sort(weighted_tokens, dim=-1)[0]


def kernels_of(model: nn.Module, args: tuple[torch.Tensor, ...], out: Path) -> set[str]:
    longhand.generate(model, args, out=out, device="cuda", arch="sm_90", run=False)
    return {path.stem for path in (out / "kernels").glob("*.py")} - {"__init__"}


def test_the_variable_of_the_one_call(tmp_path: Path) -> None:
    names = kernels_of(Joined(), (torch.randn(4, 19, 32), torch.randn(4, 19, 32)), tmp_path / "unit")
    assert names == {"make_weighted_tokens"}


def test_the_function_of_all_calls(tmp_path: Path) -> None:
    args = (torch.randn(2, 4, 19, 12), torch.randn(2, 2, 19, 12), torch.randn(19, 6))
    assert kernels_of(Turned(), args, tmp_path / "unit") == {"turned_cat"}
