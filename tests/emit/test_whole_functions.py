"""A kernel is called after a function or module only where it is essentially all of it; else after its variable."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import longhand


class Attention(nn.Module):
    """Queries, keys and values from one layer: the backward pass joins their gradients."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, seq, dim = x.shape
        q, k, v = (part.view(batch, seq, self.heads, -1).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v)
        return self.out(mixed.transpose(1, 2).reshape(batch, seq, dim))


class Tied(nn.Module):
    """A table that is looked up and multiplied with: its gradient is the sum of two."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(32, 16)
        self.attention = Attention(16, 2)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.attention(self.table(tokens))
        return nn.functional.linear(x, self.table.weight).square().mean()


def smooth(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """A function of which a matmul is the middle: no kernel is all of it."""
    widened = torch.sin(x * 2 + 1) * torch.cos(x)
    spread = widened @ weight
    return torch.cos(spread + x) * spread


def kernels_of(folder: Path) -> set[str]:
    return {path.stem for path in (folder / "kernels").glob("*.py")} - {"__init__"}


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_part_of_a_modules_backward_pass_has_its_variables_name(tmp_path: Path, device: str) -> None:
    arch = "sm_90" if device == "cuda" else None
    tokens = torch.randint(32, (2, 8))
    longhand.generate(
        Tied(), (tokens,), out=tmp_path / "unit", device=device, arch=arch, train=True, run=False
    )
    found = kernels_of(tmp_path / "unit")
    assert not found & {"d_attention", "d_tied", "tied", "cat"}
    assert found & {"make_d_qkv", "d_qkv_and_bias"}
    assert "add_gradients" in found


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_part_of_a_function_has_not_its_name(tmp_path: Path, device: str) -> None:
    arch = "sm_90" if device == "cuda" else None
    x, weight = torch.randn(8, 16), torch.randn(16, 16)
    longhand.generate(smooth, (x, weight), out=tmp_path / "unit", device=device, arch=arch, run=False)
    found = kernels_of(tmp_path / "unit")
    assert "smooth" not in found
    assert "make_widened" in found
