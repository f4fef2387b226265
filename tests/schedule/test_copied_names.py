"""What is copied, turned or seen in another shape goes by the word of what it is, and is never called ``copied``."""

from __future__ import annotations

import re

import torch
from torch import nn

from benchmarks.readability.units import text_of


class Joined(nn.Module):
    """Queries, keys and values of one product that gets a dimension more before it is taken apart."""

    def __init__(self) -> None:
        super().__init__()
        self.c_attn = nn.Linear(8, 24)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.c_attn(x).unsqueeze(1).split((8, 8, 8), dim=3)
        return torch.softmax(q * k, -1) * torch.sigmoid(v)


class Turned(nn.Module):
    """A weight of heads, which the product needs in another order."""

    def __init__(self) -> None:
        super().__init__()
        self.o = nn.Parameter(torch.randn(6, 2, 4))

    def forward(self, vec: torch.Tensor) -> torch.Tensor:
        return torch.einsum("ibnd,hnd->ibh", vec, self.o)


def unit_of(module: nn.Module, *args: torch.Tensor, train: bool = False) -> str:
    """model.py and backward.py of a unit for the CPU."""
    text = text_of((module.train(train), args, {}), "cpu", train=train)
    return "\n".join(text.get(path, "") for path in ("model.py", "backward.py"))


def test_the_gradient_of_what_is_only_seen_is_called_as_that() -> None:
    """GPTBigCode's was ``d_copied``."""
    text = unit_of(Joined(), torch.randn(2, 5, 8, requires_grad=True), train=True)
    assert re.search(r"\bd_c_attn_out\b", text)
    assert not re.search(r"\b(d_)?copied\b", text)


def test_a_weight_in_another_layout_says_which_weight_it_is() -> None:
    """XLNet's was ``copied``."""
    text = unit_of(Turned(), torch.randn(3, 2, 2, 4))
    assert re.search(r"\bo_t\b", text)
    assert not re.search(r"\b(d_)?copied\b", text)


class Decomposed(nn.Module):
    """Attention as its formula, whose softmax is the one that keeps hidden rows finite."""

    def __init__(self) -> None:
        super().__init__()
        self.proj = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made = self.proj(x)
        return torch.ops.aten._safe_softmax(made @ made.transpose(-1, -2) * 0.5, -1) @ made


def test_what_a_softmax_reads_is_scores_whatever_the_softmax_is_called() -> None:
    text = unit_of(Decomposed(), torch.randn(2, 5, 8))
    assert re.search(r"\bscores\b", text) and not re.search(r"\bproduct\b", text), text


def test_what_is_scaled_says_what() -> None:
    def attend(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        q, k = q.sin(), k.sin()
        return (q * 0.5).transpose(1, 2) @ (k * 0.25)

    text = text_of((attend, (torch.randn(2, 4, 5), torch.randn(2, 4, 5)), {}), "cpu", train=False)["model.py"]
    assert "scaled_q" in text and "scaled_k" in text, text
