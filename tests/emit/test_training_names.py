"""Names in the autograd.Function of a training unit: each is bound once, and tells whose value it is."""

from __future__ import annotations

import ast
import itertools
import re
from pathlib import Path

import pytest
import torch
from torch import nn

import longhand


class Contexts(nn.Module):
    """The user calls values what the Function's own are called: as much code does with ``ctx = weights @ values``."""

    def __init__(self) -> None:
        super().__init__()
        self.proj = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        ctx = torch.sigmoid(self.proj(x))
        parameters = torch.tanh(ctx * 2)
        return parameters * ctx


def _convolution(of: int, to: int, kernel: int = 1, groups: int = 1) -> nn.Sequential:
    convolution = nn.Conv2d(of, to, kernel, padding=kernel // 2, groups=groups, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(to), nn.ReLU6())


class Inverted(nn.Module):
    """MobileNetV2's block (Sandler et al., 2018)."""

    def __init__(self, of: int, to: int) -> None:
        super().__init__()
        self.adds = of == to
        narrow = nn.Conv2d(2 * of, to, 1, bias=False), nn.BatchNorm2d(to)
        self.conv = nn.Sequential(_convolution(of, 2 * of), _convolution(2 * of, 2 * of, 3, 2 * of), *narrow)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.conv(x) if self.adds else self.conv(x)


class Blocks(nn.Module):
    """Some blocks are alike, some are not, and what the first makes is called after the list."""

    def __init__(self, widths: tuple[int, ...]) -> None:
        super().__init__()
        blocks = [Inverted(of, to) for of, to in itertools.pairwise(widths)]
        self.features = nn.Sequential(_convolution(3, widths[0], 3), *blocks)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.features(x).mean((2, 3))


def function_of(folder: Path) -> ast.FunctionDef:
    """The Function's forward."""
    tree = ast.parse((folder / "backward.py").read_text())
    (made,) = (
        node for node in tree.body if isinstance(node, ast.ClassDef) and node.name.endswith("Function")
    )
    return next(node for node in made.body if isinstance(node, ast.FunctionDef) and node.name == "forward")


@pytest.fixture(scope="module")
def blocks(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("blocks") / "unit"
    net, x = Blocks((4, 8, 8, 12, 12, 12, 12, 16)).train(), torch.randn(2, 3, 9, 9)
    longhand.generate(net, (x,), out=folder, device="cuda", arch="sm_90", train=True, run=False)
    return folder


def test_a_user_may_call_a_value_ctx(tmp_path):
    longhand.generate(
        Contexts(), (torch.randn(3, 8),), out=tmp_path / "unit", train=True
    )  # tried before it is kept
    function = function_of(tmp_path / "unit")
    assert "ctx" not in [
        node.id for node in ast.walk(function) if isinstance(node, ast.Name) and is_bound(node)
    ]


def is_bound(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store)


def test_a_list_of_layers_and_a_value_have_two_names(blocks):
    bound = [
        name.id
        for statement in function_of(blocks).body
        if isinstance(statement, ast.Assign) and not ast.unparse(statement.value).endswith(".data")
        for target in statement.targets
        for name in ast.walk(target)
        if isinstance(name, ast.Name)
    ]
    assert len(bound) == len(set(bound))
    backward = (blocks / "backward.py").read_text()
    assert "    features: list[" in backward  # the list is not the value
    assert ".features.shape" not in backward and "saved.features." not in backward.replace(
        "saved.features.pop()", ""
    )


def test_what_many_layers_have_is_called_after_the_layer(blocks):
    text = (blocks / "model.py").read_text()
    assert re.search(r"\bfeature_\d_conv_\d_mean\b", text)
    singles = re.findall(r"\b(?:yet_)+\w*_mean\b", text)
    assert not singles
