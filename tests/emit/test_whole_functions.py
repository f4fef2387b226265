"""A kernel is called after a function or module only where it is essentially all of it; else after its variable."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import longhand
from longhand.schedule.names.operation_names import lists_ops


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
    assert found & {"make_d_qkv"}
    assert "add_gradients" in found


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_part_of_a_function_has_not_its_name(tmp_path: Path, device: str) -> None:
    arch = "sm_90" if device == "cuda" else None
    x, weight = torch.randn(8, 16), torch.randn(16, 16)
    longhand.generate(smooth, (x, weight), out=tmp_path / "unit", device=device, arch=arch, run=False)
    found = kernels_of(tmp_path / "unit")
    assert "smooth" not in found
    assert "make_widened" in found


class Cell(nn.Module):
    """Written by hand: sums and products of gates, whose variables have one letter."""

    def __init__(self) -> None:
        super().__init__()
        self.gates = nn.Linear(8, 32)

    def forward(self, x: torch.Tensor, c: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        i, f, g, o = self.gates(x).chunk(4, dim=-1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        return h, c


def test_a_kernel_of_most_of_a_module_has_its_name_and_not_a_list_of_operations(tmp_path: Path) -> None:
    """It was sigmoid_tanh_and_sum."""
    given = torch.randn(4, 8), torch.randn(4, 8)
    longhand.generate(Cell().eval(), given, out=tmp_path / "unit", device="cpu", run=False)
    (kernel,) = kernels_of(tmp_path / "unit")
    assert kernel.startswith("cell_") and not lists_ops(kernel)


def test_a_name_lists_operations_or_says_something() -> None:
    assert all(map(lists_ops, ("gather_sum_add", "sigmoid_mul", "cat_mean_rsqrt_mul_strided")))
    assert not any(map(lists_ops, ("add_layer_norm", "mul", "make_mask", "relu_batch_norm", "column_sum")))
