"""Tensors that the code holds may be called as what every module has: a cache by device, a literal called `half`."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import longhand

half = torch.linspace(0.0, 1.0, 6)


class Cached(nn.Module):
    """As LeViT keeps its biases: by the name of a device."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = {"cpu": torch.randn(6), "type": torch.randn(6)}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.cache["cpu"] + self.cache["type"]


class CachedBelow(nn.Module):
    """A part of whose path has such a name."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = {"to": {"table": torch.randn(6)}}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.cache["to"]["table"]


class OfGlobals(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * half


class WrittenOut(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        double = torch.tensor([2.0, 3.0, 5.0, 7.0, 11.0, 13.0])
        return x * double


@pytest.mark.parametrize("frontend", ["bytecode", "export"])
@pytest.mark.parametrize("model", [Cached, CachedBelow, OfGlobals, WrittenOut])
def test_a_unit_loads_and_is_right(model: type[nn.Module], frontend: str, tmp_path: Path) -> None:
    original, x = model().eval(), torch.randn(4, 6)
    longhand.generate(original, (x,), out=tmp_path / "unit", device="cpu", frontend=frontend)
    unit = longhand.load(tmp_path / "unit")()
    unit.load_state_dict(original.state_dict())
    torch.testing.assert_close(unit(x), original(x))


class ByDevice(nn.Module):
    """Two caches by device, one of which says what it keeps."""

    def __init__(self, key: str) -> None:
        super().__init__()
        self.key = key
        self.bias_cache, self.cache = {key: torch.randn(6)}, {key: torch.randn(6)}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x + self.bias_cache[self.key], -1) * self.cache[self.key]


@pytest.mark.parametrize("key", ["cpu", "cuda:0"])
def test_a_cache_by_device_is_called_after_what_it_keeps(key: str, tmp_path: Path) -> None:
    """A unit for CUDA read ``cpu_tensor``, and one of a model on a GPU a buffer called ``cuda:0``."""
    model = ByDevice(key).eval()
    longhand.generate(model, (torch.randn(4, 6),), out=tmp_path / "unit", device="cpu", frontend="bytecode")
    text = "".join(
        path.read_text() for path in (tmp_path / "unit").rglob("*.*p*") if path.suffix in (".py", ".cpp")
    )
    assert "cpu_tensor" not in text and "get_buffer" not in text
    assert "bias_cache.bias" in text and "cache.cached" in text
