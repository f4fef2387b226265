"""Under autocast equal layers are a loop as without it, and a weight in another type goes by the weight's own word."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import longhand
from benchmarks.readability.units import text_of


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down, self.norm = nn.Linear(64, 256), nn.Linear(256, 64), nn.LayerNorm(64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Net(nn.Module):
    """As people train and run models: float32 weights, products in bfloat16."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.head = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast(x.device.type, dtype=torch.bfloat16):
            for block in self.blocks:
                x = block(x)
            return self.head(x)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_equal_layers_are_a_loop(device: str) -> None:
    text = text_of((Net().eval(), (torch.randn(2, 8, 64),), {}), device, train=False)["model.py"]
    assert "for layer in range(1, len(self.blocks)):" in text
    assert text.count("self.down.weight") == 1 and "blocks[1]" not in text
    for word in ("up_weight", "up_bias", "down_weight", "down_bias", "head_weight", "head_bias"):
        assert f"        {word} = " in text
    assert "converted = " not in text


@pytest.mark.parametrize("train", [False, True])
def test_it_computes_what_eager_does(train: bool, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = Net().train(train), torch.randn(2, 8, 64)
    longhand.generate(model, (x,), out=tmp_path / "unit", device="cpu", train=train)
    unit = longhand.load(tmp_path / "unit")()
    unit.load_state_dict(model.state_dict())
    ours, theirs = unit(x), model(x)
    torch.testing.assert_close(ours, theirs, rtol=2e-2, atol=2e-2)
    if train:
        ours.float().square().sum().backward()
        theirs.float().square().sum().backward()
        for (name, one), other in zip(unit.named_parameters(), model.parameters(), strict=True):
            distance = (one.grad - other.grad).norm() / other.grad.norm()
            assert distance < 2e-2, name
