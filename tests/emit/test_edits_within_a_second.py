"""An edit counts from the moment that it is saved, though Python's bytecode knows whole seconds only."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest
import torch
from torch import nn

import longhand


class Doubled(nn.Module):
    """One kernel, whose file is edited."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x) * 2


def _same_second_as(path: Path, before: float) -> None:
    """A file's time within the second of another, as two saves in a script are."""
    os.utime(path, (before, before))


@pytest.mark.parametrize("file", ["model.py", "__init__.py"])
def test_an_edit_as_long_as_what_it_replaces(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    folder = tmp_path / "unit"
    longhand.generate(Doubled(), (torch.randn(4),), out=folder)
    edited = folder / file
    edited.write_text(f"{edited.read_text()}\nEDITION = 1\n")
    second = float(int(time.time()))
    _same_second_as(edited, second)
    assert _edition(folder, file) == 1
    edited.write_text(edited.read_text().replace("EDITION = 1", "EDITION = 2"))
    _same_second_as(edited, second + 0.5)
    assert _edition(folder, file) == 2


def test_what_nobody_edits_is_kept_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    folder = tmp_path / "unit"
    longhand.generate(Doubled(), (torch.randn(4),), out=folder)
    for path in folder.rglob("*.py"):
        _same_second_as(path, time.time() - 60)
    longhand.load(folder)
    kept = {path.name.partition(".")[0] for path in folder.rglob("*.pyc")}
    assert {"__init__", "model"} <= kept


def _edition(folder: Path, file: str) -> int:
    module = sys.modules[longhand.load(folder).__module__]
    package = sys.modules[module.__name__.partition(".")[0]]
    edition: int = (package if file == "__init__.py" else module).EDITION
    return edition
