"""A function for a part of a derivative says that it is one: where the gradients of weights are made is the proof."""

from __future__ import annotations

import ast

import pytest
import torch
from torch import nn

import longhand


class ConvNorm(nn.Module):
    def __init__(self, channels: int, width: int, *, is_active: bool = True) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, width, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(width)
        self.act = nn.ReLU() if is_active else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(self.norm(self.conv(x)))


class Stem(nn.Module):
    """Its last norm is differentiated with what is made of it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.one, self.two = ConvNorm(3, width), ConvNorm(width, width)
        self.three = ConvNorm(width, width, is_active=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.three(self.two(self.one(x)))


class Mixed(nn.Module):
    """What goes in and what the part makes, by shares that are learned."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.wide, self.narrow = ConvNorm(width, 2 * width), ConvNorm(2 * width, width, is_active=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.narrow(self.wide(x))


class Shares(nn.Module):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.stem, self.first, self.second = Stem(width), Mixed(width), Mixed(width)
        self.share = nn.Parameter(torch.randn(2, width, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        share = torch.sigmoid(self.share)
        x = x + share[0] * (self.first(x) - x)
        return x + share[1] * (self.second(x) - x)


@pytest.fixture(scope="module")
def functions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ast.FunctionDef]:
    folder = tmp_path_factory.mktemp("shares") / "unit"
    torch.manual_seed(0)
    longhand.generate(Shares().train(), (torch.randn(2, 3, 8, 8),), out=folder, train=True)
    text = (folder / "backward.py").read_text()
    return {one.name: one for one in ast.parse(text).body if isinstance(one, ast.FunctionDef)}


def _said(function: ast.FunctionDef) -> str:
    return " ".join((ast.get_docstring(function) or "").split())


def test_a_part_whose_norm_is_differentiated_by_its_caller_is_a_part(
    functions: dict[str, ast.FunctionDef],
) -> None:
    for name in ("stem", "first", "second"):
        returned = functions[f"{name}_backward"].body[-1]
        assert isinstance(returned, ast.Return) and returned.value is not None
        weights = {str(one.value) for one in ast.walk(returned.value) if isinstance(one, ast.Constant)}
        left_out = {path for path, _ in Shares().get_submodule(name).named_parameters()} - weights
        assert len(left_out) == 2  # the last norm's
        assert _said(functions[f"{name}_backward"]).startswith("Part of the derivative of ")


def test_what_is_computed_again_has_the_users_word_although_a_weight_is_called_so(
    functions: dict[str, ast.FunctionDef],
) -> None:
    text = ast.unparse(functions["shares_backward"])
    assert "kernels.sigmoid(model.share, share, " in text and "gate" not in text
