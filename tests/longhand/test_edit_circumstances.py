"""The commands where something is amiss: no git, a shallow clone, files deleted, conflict markers left, line ends."""

import json
import os
import shutil
from pathlib import Path

import pytest

import longhand
from longhand import cli
from longhand.emit.unit.threeway import Outcome
from longhand.errors import EditError
from tests.longhand import git
from tests.longhand.pair_models import FACTORY, generate

KERNEL = "kernels/gelu.cpp"
EDIT = ("constexpr long GRAIN = 4096;", "constexpr long GRAIN = 2048;")


@pytest.fixture
def unit(first, tmp_path, monkeypatch):
    monkeypatch.setenv("PAIR_VERSION", "first")
    return Path(shutil.copytree(first / "unit", tmp_path / "unit"))


def run(capsys, *words):
    code = cli.run([str(word) for word in words])
    captured = capsys.readouterr()
    return code, captured.out, " ".join(captured.err.split())


def edit(path, old, new):
    text = path.read_text()
    assert old in text, text
    path.write_text(text.replace(old, new, 1))


def test_a_shallow_clone_has_all_that_a_merge_needs(first, tmp_path):
    repository = Path(shutil.copytree(first, tmp_path / "repository"))
    edit(repository / "unit" / KERNEL, *EDIT)
    git.commit(repository, "edited")
    git.run(tmp_path, "clone", "-q", "--depth", "1", f"file://{repository}", "shallow")
    unit = tmp_path / "shallow" / "unit"
    assert git.run(unit, "rev-list", "--count", "HEAD").strip() == "1"
    report = generate("bfloat16", unit)
    assert report.is_good and KERNEL in report.of(Outcome.MERGED)
    assert EDIT[1] in (unit / KERNEL).read_text() and "bfloat16" in (unit / KERNEL).read_text()


def test_git_is_not_asked(unit, tmp_path, monkeypatch, capsys):
    fake = tmp_path / "bin" / "git"
    fake.parent.mkdir()
    fake.write_text(f"#!/bin/sh\ntouch {tmp_path}/asked\nexit 127\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}{os.pathsep}{os.environ['PATH']}")
    edit(unit / KERNEL, *EDIT)
    assert run(capsys, "check", unit)[0] == 0
    assert EDIT[1] in run(capsys, "diff", unit)[1]
    assert run(capsys, "diff", unit, "--markdown", "--no-check")[0] == 0
    assert generate("layer added", unit).of(Outcome.KEPT) == (KERNEL,)
    assert not (tmp_path / "asked").exists()
    code, _, error = run(capsys, "diff", unit, "--markdown", "--no-check", "--since", "HEAD")
    assert code == 2 and "git knows no such revision here" in error


@pytest.mark.parametrize("path", [KERNEL, "kernels/gelu.py", "model.py"])
def test_markers_that_were_left_are_a_broken_edit_with_its_place(unit, path, capsys):
    text = (unit / path).read_text().splitlines()
    word = "//" if path.endswith(".cpp") else "#"
    text[7:7] = ["<<<<<<< HEAD", f"{word} Mine.", "=======", f"{word} Theirs.", ">>>>>>> theirs"]
    (unit / path).write_text("\n".join(text) + "\n")
    code, shown, _ = run(capsys, "check", unit)
    assert code == 2 and f"{unit / path}:8:\n    git's conflict markers are still in it" in shown
    with pytest.raises(EditError, match=rf"{path}:8: git's conflict markers"):
        longhand.load(unit)
    for words in (("generate", FACTORY, "--out", unit), ("verify", unit)):
        code, _, error = run(capsys, *words)
        assert code == 2 and f"{path}:8: git's conflict markers" in error, error


def test_a_kernel_that_was_deleted_is_told_and_written_anew(unit, capsys):
    (unit / KERNEL).unlink()
    code, shown, _ = run(capsys, "check", unit)
    assert code == 2 and f"{unit / KERNEL}:1:\n    the file is missing" in shown
    with pytest.raises(EditError, match=r"gelu\.cpp:1: the file is missing"):
        longhand.load(unit)
    assert generate("first", unit).of(Outcome.RESTORED) == (KERNEL,)
    assert run(capsys, "check", unit)[0] == 0


def test_line_ends_of_another_system_are_neither_stale_nor_edits(unit, capsys):
    for path in unit.rglob("*"):
        if path.suffix in (".py", ".cpp", ".h", ".md", ".lock") and path.is_file():
            path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    code, shown, _ = run(capsys, "check", unit)
    assert code == 0 and shown == f"{unit}: current\n"
    assert "nobody edited it" in run(capsys, "diff", unit)[1]


def test_a_kernel_with_other_line_ends_and_a_byte_order_mark_runs(unit, capsys):
    for path in (KERNEL, "kernels/gelu.py"):
        content = (unit / path).read_bytes().replace(b"\n", b"\r\n")
        (unit / path).write_bytes(b"\xef\xbb\xbf" + content)
    assert run(capsys, "check", unit)[0] == 0
    code, shown, _ = run(capsys, "verify", unit, "--kernel", "gelu")
    assert code == 0, shown


def test_a_unit_without_its_lock_says_how_to_get_it_back(unit, capsys):
    (unit / "longhand.lock").unlink()
    for words in (("check", unit), ("diff", unit), ("verify", unit), ("bench", unit), ("tune", unit)):
        code, _, error = run(capsys, *words)
        assert code == 2 and "it has no longhand.lock" in error
    code, _, error = run(capsys, "generate", FACTORY, "--out", unit)
    assert code == 2 and "Get longhand.lock back" in error


def test_other_versions_are_not_stale(unit, capsys):
    lock = unit / "longhand.lock"
    edit(lock, f'"torch": "{json.loads(lock.read_text())["versions"]["torch"]}"', '"torch": "2.0.0"')
    code, shown, _ = run(capsys, "check", unit)
    assert code == 0 and shown == f"{unit}: current\n", "what it writes is the same"
    # As if that version had written another comment.
    for path in (unit / KERNEL, unit / ".base" / KERNEL):
        edit(path, "#pragma omp", "// As 2.0.0 has it.\n#pragma omp")
    code, shown, _ = run(capsys, "check", unit)
    assert code == 3 and shown.startswith(f"{unit}: generated by other versions\n  torch 2.0.0, here 2.")
    assert f"{KERNEL}  1 line would change" in shown and f"longhand generate {unit}\n" in shown
    code, shown, _ = run(capsys, "check", unit, "--format", "github")
    assert code == 3 and shown.startswith(f"::warning file={unit / KERNEL},line=") and "::error" not in shown
    assert generate("first", unit).is_good
    assert run(capsys, "check", unit)[0] == 0
