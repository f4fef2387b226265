"""Arguments that hold tensors, and those whose own words are taken: forward() hands launch() their leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

import longhand
from longhand.emit.unit.files import emit_unit
from longhand.emit.unit.loading import load_unit
from longhand.proof.python import python_faults
from longhand.schedule.names.unit import name_plans
from tests.emit.conftest import plan_unit


def of_a_batch(_scale: torch.Tensor, batch: dict[str, list[torch.Tensor]]) -> dict[str, torch.Tensor]:
    first, second = batch["x"]
    return {"y": torch.tanh(first * 2) * _scale, "z": torch.relu(second)}


def arguments() -> tuple[Any, ...]:
    torch.manual_seed(0)
    return torch.randn(4), {"x": [torch.randn(3, 4, requires_grad=True), torch.randn(5)]}


def test_a_unit_that_trains_is_given_leaves(tmp_path: Path) -> None:
    folder = tmp_path / "unit"
    longhand.generate(of_a_batch, arguments(), out=folder, train=True, run=False)
    unit = load_unit(folder)
    gradients = []
    for function in (of_a_batch, unit):
        scale, batch = arguments()
        function(scale, batch)["y"].sum().backward()
        gradients.append(batch["x"][0].grad)
    torch.testing.assert_close(*gradients)


def test_what_is_recorded_is_given_leaves() -> None:
    files = emit_unit(name_plans(plan_unit(of_a_batch, arguments(), device="cuda", mode="reduce-overhead")))
    texts = {name: str(files[name]) for name in ("model.py", "check.py")}
    assert 'return _graph(_scale, batch["x"][0], batch["x"][1])' in texts["model.py"]
    assert not python_faults(texts)
