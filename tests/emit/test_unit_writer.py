"""The unit on disk: replaced whole, edits and foreign files kept, errors change nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from longhand.emit.unit import on_disk, writer
from longhand.emit.unit.threeway import Outcome
from longhand.emit.unit.writer import read_ledger, write_unit
from longhand.errors import OutputError


class Soft(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x, -1)


class Norm(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.layer_norm(x, (x.shape[-1],))


def _snapshot(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


@pytest.fixture
def versions(emit: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    x = torch.randn(4, 8)
    return emit(Soft(), (x,)), emit(Norm(), (x,))


def test_new_version_replaces_the_old_one_and_keeps_foreign_files(versions: Any, tmp_path: Path) -> None:
    old, new = versions
    out = tmp_path / "deep" / "unit"
    write_unit(old, out)
    (out / "notes.txt").write_text("mine")
    written = write_unit(new, out)
    assert "kernels/softmax.cpp" in written.of(Outcome.REMOVED) and not (out / "kernels/softmax.cpp").exists()
    assert not (out / ".base/kernels/softmax.cpp").exists()
    assert (out / "notes.txt").read_text() == "mine"
    found = _snapshot(out)
    found.pop("notes.txt")
    assert found == {path: text if isinstance(text, bytes) else text.encode() for path, text in new.items()}
    assert sorted(path.name for path in out.parent.iterdir()) == ["unit"]


def test_a_failure_at_any_step_leaves_the_old_unit(versions: Any, tmp_path: Path, monkeypatch: Any) -> None:
    old, new = versions
    out = tmp_path / "unit"
    write_unit(old, out)
    before = _snapshot(out)

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    for step in ("_build", "swap"):
        with monkeypatch.context() as patch:
            patch.setattr(writer, step, fail)
            with pytest.raises(OutputError, match="No space left"):
                write_unit(new, out)
        assert _snapshot(out) == before
        assert sorted(path.name for path in tmp_path.iterdir()) == ["unit"]


def test_swapping_without_the_system_call_works_too(versions: Any, tmp_path: Path, monkeypatch: Any) -> None:
    old, new = versions
    out = tmp_path / "unit"
    write_unit(old, out)
    monkeypatch.setattr(on_disk, "exchange", lambda *_: False)
    write_unit(new, out)
    assert (out / "model.py").read_text() == new["model.py"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["unit"]


def test_folders_of_others_are_refused(versions: Any, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("a project")
    with pytest.raises(OutputError, match=r"holds README.md, but no longhand.lock"):
        write_unit(versions[0], tmp_path)
    assert _snapshot(tmp_path) == {"README.md": b"a project"}
    with pytest.raises(OutputError, match="is a file"):
        write_unit(versions[0], tmp_path / "README.md")


def test_unwritable_folder(versions: Any, tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("a file where a folder would have to be")
    with pytest.raises(OutputError, match="cannot be written: "):
        write_unit(versions[0], tmp_path / "plain" / "unit")
    assert _snapshot(tmp_path) == {"plain": b"a file where a folder would have to be"}


def test_ledger_is_read_back(versions: Any, tmp_path: Path) -> None:
    assert read_ledger(tmp_path) is None
    write_unit(versions[0], tmp_path / "unit")
    ledger = read_ledger(tmp_path / "unit")
    assert ledger is not None and [names.kernel for names in ledger.kernels.values()] == ["softmax"]
    (tmp_path / "unit" / "longhand.lock").write_text("{damaged")
    assert read_ledger(tmp_path / "unit") is None
