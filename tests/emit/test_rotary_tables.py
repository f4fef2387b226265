"""The tables of rotary positions read as a person writes them: one formula, in the words cos and sin."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from torch import nn

import longhand

N_HALF = 8


class Tables(nn.Module):
    """As transformers' models have them."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype
        self.register_buffer("inv_freq", torch.rand(N_HALF, dtype=dtype), persistent=False)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        freqs = torch.arange(x.shape[1])[:, None].to(self.dtype) * self.inv_freq
        emb = torch.cat((freqs, freqs), dim=-1)
        cos, sin = emb.cos(), emb.sin()
        return cos + 1, sin + 1


class Rotated(nn.Module):
    """What reads them."""

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        first, second = x[..., :N_HALF], x[..., N_HALF:]
        return x * cos + torch.cat((-second, first), dim=-1) * sin


def kernel_of(unit: Path, device: str) -> str:
    ending = "cpp" if device == "cpu" else "py"
    (path,) = [path for path in (unit / "kernels").glob(f"*.{ending}") if path.stem != "__init__"]
    return path.read_text()


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
def test_both_halves_are_one_formula(tmp_path: Path, device: str, dtype: torch.dtype) -> None:
    arch = "sm_90" if device == "cuda" else None
    x = torch.randn(2, 5, 3, dtype=dtype)
    longhand.generate(Tables(dtype), (x,), out=tmp_path / "unit", device=device, arch=arch)
    text = kernel_of(tmp_path / "unit", device)
    assert "in_half" in text and "chosen" not in text
    assert "to(tl.int64)" not in text  # the place is one of a table that is counted in 32 bits


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
def test_the_tables_are_called_cos_and_sin(tmp_path: Path, device: str, dtype: torch.dtype) -> None:
    arch = "sm_90" if device == "cuda" else None
    given = (
        torch.randn(2, 5, 16, dtype=dtype),
        torch.randn(5, 16, dtype=dtype),
        torch.randn(5, 16, dtype=dtype),
    )
    longhand.generate(Rotated(), given, out=tmp_path / "unit", device=device, arch=arch)
    text = kernel_of(tmp_path / "unit", device)
    assert re.search(r"\bcos\b", text) and re.search(r"\bsin\b", text)
    assert not re.search(r"\b(cos_cos|sin_sin)\b", text)


class Turned(nn.Module):
    """Rotary positions of which no name says what they are."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(16, 16)

    def forward(self, x: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        x = self.layer(x)
        first, second = x[..., :N_HALF], x[..., N_HALF:]
        return x * a + torch.cat((-second, first), dim=-1) * b


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_gradient_of_a_rotation_is_one(tmp_path: Path, device: str) -> None:
    arch = "sm_90" if device == "cuda" else None
    given = torch.randn(2, 5, 16), torch.randn(5, 16), torch.randn(5, 16)
    longhand.generate(Turned(), given, out=tmp_path / "unit", device=device, arch=arch, train=True)
    kernels = tmp_path / "unit" / "kernels"
    assert (kernels / "rotary.py").exists()
    title = " ".join((kernels / "d_rotary.py").read_text().partition("\n\n")[0].split())
    assert re.search(r"= (\w+) \* a - rotate_half\(\1 \* b\)\.", title)
    assert "rotate_half(" in (kernels / "rotary.py").read_text().partition("\n\n")[0]
