"""Blocks that convolve each channel by itself, in a list of several widths: one function, one class, no numbers."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import torch
from torch import nn

import longhand
from longhand.emit.unit.loading import load_unit


class ConvNorm(nn.Sequential):
    def __init__(self, n_in: int, n_out: int, kernel: int = 1, stride: int = 1, groups: int = 1) -> None:
        convolution = nn.Conv2d(n_in, n_out, kernel, stride, kernel // 2, groups=groups, bias=False)
        super().__init__(convolution, nn.BatchNorm2d(n_out), nn.ReLU6())


class Bottleneck(nn.Module):
    """As Sandler et al. (2018) have it."""

    def __init__(self, n_in: int, n_out: int, stride: int) -> None:
        super().__init__()
        wide = 4 * n_in
        self.widen, self.mix = ConvNorm(n_in, wide), ConvNorm(wide, wide, 3, stride, groups=wide)
        self.narrow, self.norm = nn.Conv2d(wide, n_out, 1, bias=False), nn.BatchNorm2d(n_out)
        self.adds = n_in == n_out and stride == 1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self.norm(self.narrow(self.mix(self.widen(x))))
        return x + out if self.adds else out


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        widths = [(3, 8, 2), (8, 8, 1), (8, 8, 1), (8, 12, 2), (12, 12, 1), (12, 12, 1), (12, 20, 2)]
        widths += [(20, 20, 1), (20, 20, 1), (20, 20, 1)]
        self.features = nn.Sequential(*(Bottleneck(*width) for width in widths))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.features(x)


def _unit(out: Path, device: str) -> tuple[nn.Module, torch.Tensor, str]:
    torch.manual_seed(0)
    model, x = Net().eval(), torch.randn(2, 3, 32, 32)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.normal_(module.running_mean, std=0.1)
    longhand.generate(model, (x,), out=out, device=device, arch="sm_90" if device == "cuda" else None)
    return model, x, (out / "model.py").read_text()


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_list_of_several_widths_has_one_class(device: str, tmp_path: Path) -> None:
    _, _, text = _unit(tmp_path / "unit", device)
    classes = [one.name for one in ast.parse(text).body if isinstance(one, ast.ClassDef)]
    assert classes == ["Bottleneck", "Net"]
    for width in (8, 12, 20):
        assert f"Bottleneck({width}) for _ in range" in text


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_as_many_groups_as_channels_is_said_so(device: str, tmp_path: Path) -> None:
    _, _, text = _unit(tmp_path / "unit", device)
    assert not re.search(r"groups=(?!1\b)\d", text)
    assert re.search(r"groups=\w+\.shape\[1\]", text)


def test_it_computes_what_the_model_does(tmp_path: Path) -> None:
    model, x, _ = _unit(tmp_path / "unit", "cpu")
    unit = load_unit(tmp_path / "unit")()
    unit.load_state_dict(model.state_dict())
    torch.testing.assert_close(unit(x), model(x))
