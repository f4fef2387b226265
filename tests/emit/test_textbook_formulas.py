"""The formula of a derivative is the one of a textbook, with what the forward pass made in lines of its own."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.readability.units import text_of


class Block(nn.Module):
    """A norm before an activation, around which goes what was given."""

    def __init__(self, norm: nn.Module, dim: int = 48) -> None:
        super().__init__()
        self.norm, self.down = norm, nn.Linear(dim, dim, bias=False)
        self.up, self.gate = nn.Linear(dim, dim, bias=False), nn.Linear(dim, dim, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normed = self.norm(x)
        return x + self.down(F.silu(self.gate(normed)) * self.up(normed))


class RMSNorm(nn.Module):
    """As models write it out."""

    def __init__(self, dim: int = 48) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(dim))

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        variance = hidden_states.pow(2).mean(-1, keepdim=True)
        return self.weight * (hidden_states * torch.rsqrt(variance + 1e-6))


class Scores(nn.Module):
    """A softmax that something goes on with."""

    def __init__(self) -> None:
        super().__init__()
        self.to_scores, self.values = nn.Linear(48, 40), nn.Linear(40, 48)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.values(torch.softmax(self.to_scores(x), dim=-1))


def titles(model: nn.Module, device: str) -> str:
    """The first paragraphs of the kernels of a model's backward pass, each on one line."""
    torch.manual_seed(0)
    files = text_of((model.train(), (torch.randn(6, 20, 48, requires_grad=True),), {}), device, train=True)
    kernels = [text for path, text in files.items() if path.startswith("kernels/") and path.endswith(".py")]
    return "\n".join(" ".join(text.partition("\n\n")[0].split()) for text in kernels)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize(
    ("norm", "wanted", "spread"),
    [
        (
            nn.LayerNorm(48),
            " - mean({d}) - normalized * mean({d} * normalized)) * rstd",
            "rsqrt(var(x) + eps)",
        ),
        (RMSNorm(), " - normalized * mean({d} * normalized)) * rstd", "rsqrt(mean(x**2) + eps)"),
    ],
)
def test_a_norms_derivative_is_one_line(norm: nn.Module, wanted: str, spread: str, device: str) -> None:
    said = titles(Block(norm), device)
    assert any(f"({d}{wanted.format(d=d)}" in said for d in ("d_normalized", "d_norm * weight")), said
    assert "through_" not in said and "centered" not in said, said


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_derivative_of_an_activation_is_its_prime(device: str) -> None:
    said = titles(Block(nn.LayerNorm(48)), device)
    assert "silu'(gate_out)" in said and "sigmoid(" not in said, said


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_softmaxs_derivative_says_what_it_takes_away(device: str) -> None:
    said = titles(Scores(), device)
    assert " - sum(d_" in said and "d_softmax(" not in said, said


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_softmax_over_one_element_says_what_is_left_of_it(emit: Any, device: str) -> None:
    """NaN and infinities behave as in eager, so that the kernel stays; nobody has to wonder why."""

    def probabilities(scores: torch.Tensor) -> torch.Tensor:
        return torch.softmax(scores * 0.5, dim=-1)

    files = emit(probabilities, (torch.randn(6, 4, 1),), device=device)
    text = "\n".join(str(text) for path, text in files.items() if path.startswith("kernels/"))
    assert "A softmax over one element is 1; it is NaN where that is infinite or NaN." in text
    assert "numerator" not in text
