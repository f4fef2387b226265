"""The elements of pairs that lie side by side are even and odd ones, or what the user calls them; never halves."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from benchmarks.readability.units import text_of


class Interleaved(nn.Module):
    """Rotary embedding of pairs, put together by stack."""

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        first = x[..., 0::2]
        turned = torch.stack((-x[..., 1::2], first), dim=-1).flatten(-2)
        return x * cos + turned * sin


class Split(nn.Module):
    """Pairs that are taken apart, and put side by side: called for two tensors by other words."""

    def forward(self, q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        q1, q2 = q[..., 0::2], q[..., 1::2]
        k1, k2 = k[..., 0::2], k[..., 1::2]
        q_embed = torch.cat([q1 * cos - q2 * sin, q2 * cos + q1 * sin], dim=-1)
        k_embed = torch.cat([k1 * cos - k2 * sin, k2 * cos + k1 * sin], dim=-1)
        return torch.matmul(q_embed, k_embed.transpose(-1, -2))


class Halves(nn.Module):
    """The same of halves, which are halves."""

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        return x * cos + torch.cat((-x[..., 4:], x[..., :4]), dim=-1) * sin


def _kernels(model: nn.Module, args: tuple[torch.Tensor, ...], device: str, train: bool) -> str:
    files = text_of((model, args, {}), device, train=train)
    return "\n".join(str(text) for path, text in files.items() if path.startswith("kernels/"))


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("train", [False, True])
def test_elements_of_a_pair_are_no_halves(device: str, train: bool) -> None:
    x = torch.randn(2, 3, 8, requires_grad=train)
    kernels = _kernels(Interleaved(), (x, torch.randn(3, 8), torch.randn(3, 8)), device, train)
    assert "odd_offset" in kernels and "even" in kernels, kernels
    assert "half" not in kernels, kernels


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_what_is_read_two_apart_is_even_and_odd_where_users_differ(device: str) -> None:
    tables = torch.randn(3, 4), torch.randn(3, 4)
    kernels = _kernels(Split(), (torch.randn(2, 3, 8), torch.randn(2, 3, 8), *tables), device, False)
    assert "even_x" in kernels and "odd_x" in kernels, kernels
    assert "first_x" not in kernels and "second_x" not in kernels, kernels


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_halves_stay_halves(device: str) -> None:
    kernels = _kernels(Halves(), (torch.randn(2, 3, 8), torch.randn(3, 8), torch.randn(3, 8)), device, False)
    assert "half" in kernels and "odd" not in kernels, kernels
