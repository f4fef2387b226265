"""Kernels of the backward pass are called after what they differentiate, and say so: not after a list of operations."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import longhand


class RootNorm(nn.Module):
    """A norm as models write it, of which no operation has the name."""

    def __init__(self, dim: int, power: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(dim))
        self.power = power

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean_squared = x.pow(2).mean(-1, keepdim=True) + 1e-6
        scale = mean_squared.pow(-0.5) if self.power else torch.rsqrt(mean_squared)
        return x * scale * self.weight


def repeat_heads(x: torch.Tensor, times: int) -> torch.Tensor:
    """Each of the second dimension several times."""
    batch, heads, seq, dim = x.shape
    return x[:, :, None].expand(batch, heads, times, seq, dim).reshape(batch, heads * times, seq, dim)


class Stack(nn.Module):
    """Norms between layers."""

    def __init__(self, power: bool = False) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(16, 16), nn.Linear(16, 16)
        self.norm, self.last_norm = RootNorm(16, power), RootNorm(16, power)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.first(x))
        return self.last_norm(self.second(x))


class Repeated(nn.Module):
    """A function that only moves data, before a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(repeat_heads(x, 3))


def titles(folder: Path, power: bool, device: str) -> dict[str, str]:
    unit = folder / "unit"
    arch = "sm_90" if device == "cuda" else None
    longhand.generate(
        Stack(power), (torch.randn(2, 5, 16),), out=unit, device=device, arch=arch, train=True, run=False
    )
    return {
        path.stem: " ".join(path.read_text().partition("\n\n")[0].split())
        for path in (unit / "kernels").glob("*.py")
        if path.stem != "__init__"
    }


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("power", [False, True], ids=["rsqrt", "power"])
def test_the_backward_pass_of_a_module_has_its_name(tmp_path: Path, power: bool, device: str) -> None:
    found = titles(tmp_path, power, device)
    assert any(name.startswith("d_root_norm") for name in found)
    assert "rms_norm" in found  # a power of -1/2 is the same root
    assert not any("in one pass" in title for title in found.values())
    assert any(
        "the backward pass of RootNorm" in title or "d_weight = sum(" in title for title in found.values()
    )


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_copy_is_called_after_its_function(tmp_path: Path, device: str) -> None:
    arch = "sm_90" if device == "cuda" else None
    x = torch.randn(2, 2, 5, 8)
    longhand.generate(Repeated(), (x,), out=tmp_path / "unit", device=device, arch=arch, run=False)
    assert (tmp_path / "unit" / "kernels" / "repeat_heads.py").exists()


class TaperedTanh(nn.Module):
    """An activation of several operations, one of which (tanh) has a name."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 0.5 * x * (1.0 + torch.tanh(x + 0.04 * x.pow(3)))


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_function_of_several_operations_is_what_is_differentiated(tmp_path: Path, device: str) -> None:
    """GPT-2's was `tanh_add_mul_scale_and_d_add_tanh`."""
    model = nn.Sequential(nn.Linear(16, 32), TaperedTanh(), nn.Linear(32, 16))
    arch = "sm_90" if device == "cuda" else None
    longhand.generate(
        model, (torch.randn(4, 16),), out=tmp_path / "unit", device=device, arch=arch, train=True
    )
    names = {path.stem for path in (tmp_path / "unit" / "kernels").iterdir()}
    assert "tapered_tanh" in names
    assert "d_tapered_tanh" in names, names
    assert not any("tanh_add" in name for name in names), names
