"""Gradients that several products make are one sum, each product added where the total lies."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from tests.autograd.test_kept_parts import written

pytestmark = pytest.mark.usefixtures("trial_runs")

B, S, D = 3, 5, 8


class Attention(nn.Module):
    """Three linear layers read x, which a residual reads, too."""

    def __init__(self, has_bias: bool = True) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(D, D, bias=has_bias) for _ in range(3))
        self.norm = nn.LayerNorm(D)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(x)
        return x + torch.tanh(self.q(x)) * torch.sigmoid(self.k(x)) * torch.sin(self.v(x))


class Layers(nn.Module):
    """Each layer reads one memory."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(D, D)
        self.layers = nn.ModuleList(Cross() for _ in range(3))

    def forward(self, x: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
        memory = torch.tanh(self.embed(memory))
        for layer in self.layers:
            x = layer(x, memory)
        return x


class Cross(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.k, self.v, self.out = (nn.Linear(D, D) for _ in range(3))

    def forward(self, x: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
        return x + self.out(torch.sigmoid(self.k(memory)) * torch.tanh(x + self.v(memory)))


class OfOneModule(nn.Module):
    """Products of its own weights, which no linear layer holds."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = (nn.Parameter(torch.randn(D, D) / 3) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.sin(x)
        return torch.tanh(x @ self.first) * torch.sigmoid(x @ self.second)


class InList(nn.Module):
    """Layers of a list: which of them are one call, nothing tells."""

    def __init__(self) -> None:
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(D, D) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.sin(x)
        return torch.stack([expert(x) for expert in self.experts]).tanh().sum(0)


class OtherWidths(nn.Module):
    """A product that is read twice is no summand alone."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(D, 3), nn.Linear(D, 7)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.cos(x)
        return torch.cat([torch.tanh(self.a(x)), torch.sigmoid(self.b(x))], -1)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("has_bias", [True, False])
def test_three_layers_of_one_value(device: str, has_bias: bool, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Attention(has_bias)
    text = written(model, (torch.randn(B, S, D, requires_grad=True),), tmp_path / "unit", device)
    assert text.count(".addmm_(") == 2
    assert "d_x_from_k" not in text and "d_x_from_v" not in text


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_layers_that_read_one_memory_stay_one_function(device: str, tmp_path: Path) -> None:
    """A total through all layers would be begun by the first of them, and no two would be equal."""
    torch.manual_seed(0)
    given = torch.randn(B, S, D), torch.randn(B, S, D)
    text = written(Layers(), given, tmp_path / "unit", device)
    assert text.count(".addmm_(") == 2  # of the function of two layers, and of the first layer's
    assert text.count("def cross_backward(") == 1 and text.count(" = cross_backward(") == 2


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_products_of_a_modules_own_weights(device: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    text = written(OfOneModule(), (torch.randn(B, S, D, requires_grad=True),), tmp_path / "unit", device)
    assert text.count(".addmm_(") == 1


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_layers_of_a_list_are_added_by_a_kernel(device: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    text = written(InList(), (torch.randn(B, S, D, requires_grad=True),), tmp_path / "unit", device)
    assert ".addmm_(" not in text


@pytest.mark.parametrize("shape", [(D,), (1, D), (S, D), (2, 1, S, D)])
def test_any_shape(shape: tuple[int, ...], tmp_path: Path) -> None:
    torch.manual_seed(0)
    written(OtherWidths(), (torch.randn(shape, requires_grad=True),), tmp_path / "unit", "cpu")


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_dtypes(dtype: torch.dtype, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Attention().to(dtype)
    text = written(model, (torch.randn(B, S, D, dtype=dtype, requires_grad=True),), tmp_path / "unit", "cpu")
    assert text.count(".addmm_(") == 2
