"""What derivatives of two blocks have in common is one function, though neither is all of the other."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import torch
from torch import nn

import longhand
from benchmarks.readability.units import text_of
from tests.same_gradients import assert_gradients_as_exact


class Mixer(nn.Module):
    """Is fused with what stands before it where it is the last, and not where it is the first."""

    def __init__(self, seq: int, dim: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.up, self.down, self.gate = nn.Linear(seq, 2 * seq), nn.Linear(2 * seq, seq), nn.Linear(seq, seq)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norm(x).transpose(2, 3)
        h = self.down(torch.tanh(self.up(h)))
        h = h * torch.softmax(self.gate(h), -1)
        return x + h.transpose(2, 3)


class Two(nn.Module):
    """Of one size, or of another behind it."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.early, self.late = Mixer(8, 8), Mixer(8, dim)
        self.between = nn.Linear(8, dim) if dim > 8 else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.early(x)
        return self.late(x if self.between is None else self.between(x))


def functions(text: str) -> dict[str, str]:
    tree = ast.parse(text)
    return {one.name: ast.unparse(one) for one in tree.body if isinstance(one, ast.FunctionDef)}


@pytest.mark.parametrize("dim", [8, 12], ids=["alike", "wider"])
def test_what_two_blocks_have_in_common_is_written_once(dim: int) -> None:
    text = text_of((Two(dim), (torch.randn(2, 3, 8, 8),), {}), "cuda", train=True)["backward.py"]
    written = functions(text)
    assert "mixer_backward" in written, text
    assert text.count(" = mixer_backward(") == 2, text
    for call in ("kernels.d_tanh(", "kernels.d_softmax_product("):
        assert sum(call in one for one in written.values()) == 1, text


def test_what_has_more_dimensions_in_one_call_tells_but_the_last_ones() -> None:
    text = text_of((Two(8), (torch.randn(2, 3, 8, 8),), {}), "cuda", train=True)["backward.py"]
    common = functions(text)["mixer_backward"]
    assert "dim = d_out.shape[-1]" in common and not re.search(r"= d_out\.shape$", common, re.MULTILINE), (
        common
    )


def test_the_gradients_are_right(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = Two(12), torch.randn(2, 3, 8, 8)
    longhand.generate(model, (x,), out=tmp_path, device="cpu", train=True)
    assert_gradients_as_exact(model, tmp_path, x)
