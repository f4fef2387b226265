"""LONGHAND_DUMP: every stage's result as text, numbered in order; the graph runs as Python."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

import longhand
from longhand.lower.passes import PASSES as LOWERING
from longhand.schedule.passes import PASSES


def scaled_softmax(x: torch.Tensor) -> torch.Tensor:
    scores = x * 0.5
    return F.softmax(scores, dim=-1)


def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def test_each_stage_is_written_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "dump"
    monkeypatch.setenv("LONGHAND_DUMP", str(folder))
    x = torch.randn(5, 7)
    longhand.generate(scaled_softmax, (x,), out=tmp_path / "unit", device="cpu")
    names = [
        "001_graph.py",
        "002_lower",
        "003_program.txt",
        "004_schedule",
        "005_plan.txt",
        "006_files.txt",
    ]
    assert sorted(path.name for path in folder.iterdir()) == names
    graph, program, plan, files = ((folder / name).read_text() for name in names if (folder / name).is_file())
    lowered = sorted(path.name for path in (folder / "002_lower").iterdir())
    assert [name.partition("_")[2] for name in lowered] == [f"{one.name}.txt" for one in LOWERING]
    assert (folder / "002_lower" / lowered[0]).read_text() == graph
    assert (folder / "002_lower" / lowered[-1]).read_text() == program
    passes = sorted(path.name for path in (folder / "004_schedule").iterdir())
    assert [name.partition("_")[2] for name in passes] == [f"{one.name}.txt" for one in PASSES]
    assert "row_max" in (folder / "004_schedule" / passes[0]).read_text()
    assert (folder / "004_schedule" / passes[-1]).read_text() == plan

    forward = runpy.run_path(str(folder / names[0]))["forward"]
    torch.testing.assert_close(forward(x)[0], scaled_softmax(x))
    assert "scores = x * 0.5" in graph
    assert "row_max" in program and "exp" in program
    assert "kernel 0" in plan
    assert "model.py" in files.split("\n")

    longhand.generate(doubled, (x,), out=tmp_path / "other", device="cpu")
    assert [path.name for path in sorted(folder.iterdir())][6:] == [
        "007_graph.py",
        "008_lower",
        "009_program.txt",
        "010_schedule",
        "011_plan.txt",
        "012_files.txt",
    ]
    assert (folder / names[0]).read_text() == graph


def test_training_shows_both_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "dump"
    monkeypatch.setenv("LONGHAND_DUMP", str(folder))
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.GELU())
    longhand.generate(model, (torch.randn(3, 4),), out=tmp_path / "unit", device="cpu", train=True)
    kinds = [path.name.split("_")[1] for path in sorted(folder.iterdir())]
    assert kinds[:4] == ["graph.py", "forward.py", "backward.py", "partition.txt"]
    assert kinds.count("plan.txt") == 2 and kinds[-1] == "files.txt"


def test_nothing_is_written_without_being_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LONGHAND_DUMP", raising=False)
    monkeypatch.chdir(tmp_path)
    longhand.generate(scaled_softmax, (torch.randn(5, 7),), out=tmp_path / "unit", device="cpu")
    assert [path.name for path in tmp_path.iterdir()] == ["unit"]
