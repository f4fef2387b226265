"""Layers that each make of one condition what their own kernels read, as a diffusion transformer's: one loop."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import longhand
from benchmarks.models.written_out import DiT
from tests.same_gradients import assert_same_gradients, unit_of

N_LAYERS = 5


@pytest.fixture
def model() -> DiT:
    torch.manual_seed(0)
    return DiT(width=32, n_layers=N_LAYERS, n_heads=2)


def example() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(2, 9, 32), torch.randn(2, 32)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_what_a_layer_makes_of_the_condition_is_in_the_layer(device: str, model: DiT, tmp_path: Path) -> None:
    arch = "sm_90" if device == "cuda" else None
    longhand.generate(model.eval(), example(), out=tmp_path / "unit", device=device, arch=arch)
    text = (tmp_path / "unit/model.py").read_text()
    assert "for layer in range(1, len(self.blocks)):" in text
    # The first layer's stands before the loop, the others' in the function of them all.
    assert text.count("modulation.weight") == 2


def test_results_and_gradients(model: DiT, tmp_path: Path) -> None:
    given = example()
    longhand.generate(model.eval(), given, out=tmp_path / "unit", device="cpu")
    torch.testing.assert_close(unit_of(model, tmp_path / "unit")(*given), model(*given), rtol=1e-4, atol=1e-5)
    longhand.generate(model.train(), given, out=tmp_path / "trained", device="cpu", train=True)
    text = (tmp_path / "trained/backward.py").read_text()
    assert "reversed(range(" in text
    assert_same_gradients(model, tmp_path / "trained", *given, rtol=1e-3, atol=1e-4)
