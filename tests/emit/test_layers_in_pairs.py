"""Layers that are lists of a norm and a block, as x-transformers has them: what a block keeps has a word for a name."""

from __future__ import annotations

import re
from pathlib import Path

import torch
from torch import nn

import longhand
from longhand.schedule.names.value_origins import words_in_module
from tests.same_gradients import assert_same_gradients


class Attend(nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        attn = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
        out = attn @ v
        return out  # noqa: RET504


class Attention(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.to_q, self.to_k, self.to_v = (nn.Linear(dim, dim, bias=False) for _ in range(3))
        self.attend = Attend()
        self.to_out = nn.Linear(dim, dim, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = (part(x).unflatten(-1, (2, -1)) for part in (self.to_q, self.to_k, self.to_v))
        q, k, v = (part.transpose(1, 2) for part in parts)
        out = self.attend(q, k, v)
        return self.to_out(out.transpose(1, 2).flatten(2))


class Pairs(nn.Module):
    def __init__(self, dim: int, depth: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList()
        for _ in range(depth):
            feed_forward = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
            self.layers.append(nn.ModuleList([nn.LayerNorm(dim), Attention(dim)]))
            self.layers.append(nn.ModuleList([nn.LayerNorm(dim), feed_forward]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for norm, block in self.layers:
            out = block(norm(x))
            x = x + out
        return x


def test_a_value_of_a_layers_second_module_has_a_word_before_the_place(tmp_path: Path) -> None:
    """``_1_attend_out`` is no field of a NamedTuple: the unit could not be imported, and training ran in eager."""
    torch.manual_seed(0)
    model, x = Pairs(8, 3), torch.randn(2, 5, 8)
    longhand.generate(model, (x,), out=tmp_path / "unit", device="cpu", train=True)
    for path in (tmp_path / "unit").rglob("*.py"):
        assert not re.search(r"\b_\d", path.read_text()), path.name
    assert_same_gradients(model, tmp_path / "unit", x)


def test_a_path_that_begins_with_a_place_is_a_layers() -> None:
    assert list(words_in_module("layers.0.1.attend", ["out"], "layers.0."))[-1] == "layer_1_attend_out"
