"""No call of a kernel says a number where a word, a shape or a stride of what it is given tells it."""

from __future__ import annotations

import ast
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

import longhand


class PairedRotary(nn.Module):
    """Pairs of the first features are turned; how many they are, only the angles say."""

    def __init__(self) -> None:
        super().__init__()
        self.q = nn.Linear(48, 48)

    def forward(self, x: torch.Tensor, cos: torch.Tensor) -> torch.Tensor:
        batch, seq, _ = x.shape
        q = self.q(x).view(batch, seq, 4, 12).transpose(1, 2)
        cos = cos[..., : cos.shape[-1] // 2].repeat_interleave(2, dim=-1).unsqueeze(1)
        return q[..., :6] * cos


class Downsampled(nn.Module):
    """A window with a padding, that moves by two places."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 24, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.avg_pool2d(torch.tanh(self.conv(x)), 3, 2, 1, count_include_pad=False)


class Joined(nn.Module):
    """Three pieces of different widths in one kernel."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = nn.Linear(32, 40), nn.Linear(32, 16), nn.Linear(32, 24)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([self.query(x), torch.tanh(self.key(x)), self.value(x)], dim=-1)


def numbers_of_calls(files: dict[str, str]) -> dict[str, list[str]]:
    """By kernel: what its calls say with a number of 3 or more and no word."""
    found: dict[str, list[str]] = {}
    for text in files.values():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("kernels."):
                for one in node.keywords:
                    bare = one.value.operand if isinstance(one.value, ast.UnaryOp) else one.value
                    if isinstance(bare, ast.Constant) and isinstance(bare.value, int) and bare.value > 2:
                        found.setdefault(ast.unparse(node.func), []).append(ast.unparse(one))
    return found


def text_of(
    model: nn.Module, args: tuple[torch.Tensor, ...], out: Path, train: bool = False
) -> dict[str, str]:
    longhand.generate(model, args, out=out, device="cuda", arch="sm_90", train=train, run=False)
    return {
        path.name: path.read_text() for path in out.glob("*.py") if path.name in ("model.py", "backward.py")
    }


def test_an_axis_is_told_by_the_dimension_that_it_walks(tmp_path: Path) -> None:
    files = text_of(PairedRotary().eval(), (torch.randn(2, 19, 48), torch.randn(1, 19, 6)), tmp_path / "unit")
    assert not numbers_of_calls(files)
    assert " // 2,\n" in files["model.py"]
    assert "cos.stride(1)" in files["model.py"]


def test_a_window_steps_along_dimensions(tmp_path: Path) -> None:
    files = text_of(Downsampled().eval(), (torch.randn(2, 3, 32, 32),), tmp_path / "unit")
    told = numbers_of_calls(files)
    assert all(one.startswith("n_window_") for numbers in told.values() for one in numbers)
    assert ".stride(2) + " in files["model.py"]


def test_pieces_end_where_words_say(tmp_path: Path) -> None:
    files = text_of(Joined(), (torch.randn(2, 19, 32),), tmp_path / "unit")
    assert not numbers_of_calls(files)
    assert "_end=QUERY_DIM + KEY_DIM" in files["model.py"]
