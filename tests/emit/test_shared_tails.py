"""Layers of two kinds in turn that end alike: their end is a function of the one class, which the other calls."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import torch

import longhand
from longhand.emit.unit.loading import load_unit
from tests.emit.test_layers_in_turn import one_of_three, stack, windows


@pytest.mark.parametrize("begins_alike", [True, False])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_what_two_kinds_do_alike_is_told_once(device: str, begins_alike: bool, tmp_path: Path) -> None:
    model, x = stack(windows, 8, begins_alike)
    arch = "sm_90" if device == "cuda" else None
    longhand.generate(model.eval(), (x,), out=tmp_path / "unit", device=device, arch=arch)
    tree = ast.parse((tmp_path / "unit" / "model.py").read_text())
    layer, other = [one for one in tree.body if isinstance(one, ast.ClassDef)][:2]
    assert ast.unparse(layer).count("self.up.weight") == 1
    assert "self.up.weight" not in ast.unparse(other) and "return self.after_" in ast.unparse(other)


@pytest.mark.parametrize("begins_alike", [True, False])
def test_both_kinds_compute_what_the_model_does(begins_alike: bool, tmp_path: Path) -> None:
    model, x = stack(windows, 8, begins_alike)
    longhand.generate(model.eval(), (x,), out=tmp_path / "unit")
    unit = load_unit(tmp_path / "unit")()
    unit.load_state_dict(model.state_dict())
    torch.testing.assert_close(unit(x), model(x))


def test_kinds_that_hold_other_things_have_nothing_in_common(tmp_path: Path) -> None:
    model, x = stack(one_of_three, 9)
    longhand.generate(model.eval(), (x,), out=tmp_path / "unit")
    assert "in both kinds of layers" not in (tmp_path / "unit" / "model.py").read_text()
    unit = load_unit(tmp_path / "unit")()
    unit.load_state_dict(model.state_dict())
    torch.testing.assert_close(unit(x), model(x))
