"""Modules of one class that do not all do the same: a function for each kind, which is called after its difference."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import torch
from torch import nn

import longhand


class Branches(nn.Module):
    """A convolution beside one or two others, and beside nothing at all."""

    def __init__(self, dim: int, *, is_wide: bool = True, is_tall: bool = True, keeps: bool = True) -> None:
        super().__init__()
        self.main, self.main_norm = nn.Conv2d(dim, dim, 3, padding=1, bias=False), nn.BatchNorm2d(dim)
        self.wide = nn.Conv2d(dim, dim, (1, 3), padding=(0, 1), bias=False) if is_wide else None
        self.tall = nn.Conv2d(dim, dim, (3, 1), padding=(1, 0), bias=False) if is_tall else None
        self.identity = nn.BatchNorm2d(dim) if keeps else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        total = self.main_norm(self.main(x))
        if self.wide is not None:
            total = total + self.wide(x)
        if self.tall is not None:
            total = total + self.tall(x)
        if self.identity is not None:
            total = total + self.identity(x)
        return torch.relu(total)


class Stages(nn.Module):
    """No two stages alike."""

    def __init__(self, dim: int = 6) -> None:
        super().__init__()
        whole, flat, high, bare = {}, {"is_tall": False}, {"is_wide": False}, {"keeps": False}
        kinds = [[bare, whole, flat], [whole, high, bare], [bare, flat, whole, high]]
        self.stages = nn.ModuleList(
            nn.Sequential(*(Branches(dim, **kind) for kind in stage)) for stage in kinds
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for stage in self.stages:
            x = stage(x)
        return x


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_each_kind_is_a_function_with_its_difference_for_a_name(device: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    module, x = Stages().eval(), torch.randn(2, 6, 9, 9)
    longhand.generate(
        module, (x,), out=tmp_path / "unit", device=device, arch="sm_90" * (device == "cuda") or None
    )
    text = (tmp_path / "unit" / "model.py").read_text()
    functions = [node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    kinds = {name for name in functions if name.startswith("branches") and not name.endswith("_weights")}
    assert len(kinds) == 4 and not any("other" in name or "further" in name for name in kinds), functions
    assert sum("without" in name for name in kinds) + sum("_with_" in name for name in kinds) >= 2, functions
    assert text.count("F.conv2d(") + text.count("convolution(") <= 3 + 2 + 2 + 3, text
