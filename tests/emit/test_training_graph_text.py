"""What a unit for training says of its recordings, in the modes that record; without a GPU it just runs."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import longhand
from longhand.emit.unit.loading import load_unit


class Net(nn.Module):
    """Two results, one that has no gradient, a buffer that is written to, and dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(8, 16)
        self.norm = nn.BatchNorm1d(16)
        self.drop = nn.Dropout(0.25)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = self.drop(torch.tanh(self.norm(self.up(x))))
        return hidden.square().mean(), hidden > 0


def scaled(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x * w).sum()


def unit_of(model: object, args: tuple[torch.Tensor, ...], folder: Path, mode: str) -> Path:
    longhand.generate(
        model,
        args,
        out=folder / f"unit_{mode.replace('-', '_')}",
        device="cuda",
        arch="sm_90",
        mode=mode,
        train=True,
    )
    return folder / f"unit_{mode.replace('-', '_')}"


def test_both_passes_are_given_to_what_records_them(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = Net(), torch.randn(4, 8)
    folder = unit_of(model, (x,), tmp_path, "reduce-overhead")
    text, backward = (folder / "model.py").read_text(), (folder / "backward.py").read_text()
    assert "self._graph = TrainingGraph(net_forward, net_gradients, self, mutates=())" in text
    assert "NetFunction.apply(self, x, *parameters_of(self))" in text
    assert "results = model._graph.forward(ctx, x)" in backward
    assert "ctx.mark_non_differentiable(results[1])" in backward
    assert "*ctx.step.backward(ctx, d_" in backward
    assert backward.count("model.launch(x)") == 1
    assert "TrainingGraph" in (folder / "runtime.py").read_text()


def test_functions_are_recorded_too(tmp_path: Path) -> None:
    x, w = torch.randn(6, 4), torch.randn(4, requires_grad=True)
    folder = unit_of(scaled, (x, w), tmp_path, "reduce-overhead")
    text = (folder / "model.py").read_text()
    assert "\n_graph = TrainingGraph(scaled_forward, scaled_gradients, mutates=())\n" in text
    assert "return model._graph.forward(ctx, x, w)" in (folder / "backward.py").read_text()
    run = load_unit(folder)
    assert run.__name__ == "scaled"


@pytest.mark.parametrize("mode", ["default", "max-autotune-no-cudagraphs"])
def test_other_modes_record_nothing(mode: str, tmp_path: Path) -> None:
    folder = unit_of(scaled, (torch.randn(6, 4), torch.randn(4, requires_grad=True)), tmp_path, mode)
    for name in ("model.py", "backward.py", "runtime.py"):
        assert "TrainingGraph" not in (folder / name).read_text()
