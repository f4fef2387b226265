"""What becomes of edits when a unit is written again: kept, merged, in conflict, set aside; never lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from longhand.emit.unit.lock_file import LOCK
from longhand.emit.unit.threeway import Outcome
from longhand.emit.unit.writer import read_ledger, write_unit
from longhand.errors import EditError
from tests.emit.merge_units import KERNEL, bytes_of, edit, outcome, snapshot, version

GELU = "kernels/gelu.py"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    folder = tmp_path / "unit"
    write_unit(version(gelu=3, norm=5), folder)
    return folder


def test_nothing_changes_where_nothing_is_new(out: Path) -> None:
    inode = out.stat().st_ino
    report = write_unit(version(gelu=3, norm=5), out)
    assert {file.outcome for file in report.files} == {Outcome.SAME}
    assert out.stat().st_ino == inode, "a folder that is right already is left alone"


def test_an_edit_is_kept_where_nothing_is_new_and_merged_where_something_is(out: Path) -> None:
    edit(out, GELU, "BLOCK = 512", "BLOCK = 128")
    edit(out, GELU, "second * 2", "second * 2  # twice")
    assert outcome(write_unit(version(gelu=3, norm=6), out), GELU) is Outcome.KEPT
    assert outcome(write_unit(version(gelu=4, norm=6), out), GELU) is Outcome.MERGED
    merged = (out / GELU).read_text()
    expected = KERNEL.format(name="gelu", first=4)
    assert merged == expected.replace("BLOCK = 512", "BLOCK = 128").replace(
        "second * 2", "second * 2  # twice"
    )
    assert (out / ".base" / GELU).read_text() == expected
    assert outcome(write_unit(version(gelu=4, norm=6), out), GELU) is Outcome.KEPT


def test_a_conflict_leaves_the_whole_unit_and_puts_the_new_text_beside(out: Path) -> None:
    edit(out, GELU, "x * 3", "x * 3.0")
    edit(out, "kernels/norm.py", "NUM_WARPS = 4", "NUM_WARPS = 8")
    before = snapshot(out)
    report = write_unit(version(gelu=4, norm=6), out)
    assert report.has_conflicts and not report.is_good
    file, other = report.files
    assert file.path == GELU and file.outcome is Outcome.CONFLICT
    assert other.path == "kernels/norm.py" and other.outcome is Outcome.KEPT
    assert (file.conflicts[0].line, file.conflicts[0].ours) == (9, ("    first = x * 3.0",))
    after = snapshot(out)
    assert after.pop(f"{GELU}.new").decode() == version(gelu=4)[GELU]
    assert after.pop(f".base/{GELU}.new").decode() == version(gelu=4)[GELU]
    assert after == before
    # Again: still the same question, and nothing more on disk.
    assert write_unit(version(gelu=4, norm=6), out).has_conflicts
    assert snapshot(out).keys() == before.keys() | {f"{GELU}.new", f".base/{GELU}.new"}


def test_a_conflict_is_settled_by_deleting_the_new_file(out: Path) -> None:
    edit(out, GELU, "x * 3", "x * 3.0")
    write_unit(version(gelu=4, norm=6), out)
    edit(out, GELU, "x * 3.0", "x * 4.0")
    edit(out, GELU, "(x * 3 ", "(x * 4 ")
    (out / f"{GELU}.new").unlink()
    report = write_unit(version(gelu=4, norm=6), out)
    assert report.is_good and outcome(report, GELU) is Outcome.KEPT
    assert outcome(report, "kernels/norm.py") is Outcome.REPLACED
    assert "x * 4.0" in (out / GELU).read_text()
    assert not list(out.rglob("*.new"))
    assert outcome(write_unit(version(gelu=4, norm=6), out), GELU) is Outcome.KEPT


def test_a_conflict_is_settled_by_taking_the_new_file(out: Path) -> None:
    edit(out, GELU, "x * 3", "x * 3.0")
    write_unit(version(gelu=4, norm=6), out)
    (out / f"{GELU}.new").rename(out / GELU)
    assert write_unit(version(gelu=4, norm=6), out).is_good
    assert snapshot(out) == bytes_of(version(gelu=4, norm=6))


def test_edits_in_the_new_file_are_not_overwritten(out: Path) -> None:
    edit(out, GELU, "x * 3", "x * 3.0")
    write_unit(version(gelu=4, norm=6), out)
    edit(out, f"{GELU}.new", "x * 4", "4 * x")
    before = snapshot(out)
    report = write_unit(version(gelu=7, norm=6), out)
    assert report.has_conflicts and "was edited" in report.files[0].detail
    assert snapshot(out) == before


def test_an_edited_kernel_that_is_no_longer_needed_is_set_aside_and_comes_back(out: Path) -> None:
    edit(out, GELU, "BLOCK = 512", "BLOCK = 128")
    report = write_unit(version(norm=5), out)
    assert outcome(report, GELU) is Outcome.ASIDE
    assert "kernels/aside/gelu.py" in next(file.detail for file in report.files if file.path == GELU)
    assert "BLOCK = 128" in (out / "kernels/aside/gelu.py").read_text() and not (out / GELU).exists()
    for first in (5, 6):
        write_unit(version(norm=first), out)
        assert "BLOCK = 128" in (out / "kernels/aside/gelu.py").read_text()
    assert outcome(write_unit(version(gelu=9, norm=6), out), GELU) is Outcome.MERGED
    assert (out / GELU).read_text() == KERNEL.format(name="gelu", first=9).replace("512", "128")
    assert not (out / "kernels/aside").exists()


def test_what_is_set_aside_twice_is_there_twice(out: Path) -> None:
    (out / "kernels/aside").mkdir()
    (out / "kernels/aside/gelu.py").write_text("mine\n")
    edit(out, GELU, "BLOCK = 512", "BLOCK = 128")
    write_unit(version(norm=5), out)
    assert (out / "kernels/aside/gelu.py").read_text() == "mine\n"
    assert "BLOCK = 128" in (out / "kernels/aside/gelu_2.py").read_text()


def test_an_unedited_kernel_that_is_no_longer_needed_goes(out: Path) -> None:
    assert outcome(write_unit(version(norm=5), out), GELU) is Outcome.REMOVED
    assert snapshot(out) == bytes_of(version(norm=5))


def test_a_deleted_file_is_written_anew(out: Path) -> None:
    (out / GELU).unlink()
    assert outcome(write_unit(version(gelu=3, norm=5), out), GELU) is Outcome.RESTORED
    assert snapshot(out) == bytes_of(version(gelu=3, norm=5))


def test_without_a_base_nothing_is_guessed(out: Path) -> None:
    edit(out, GELU, "BLOCK = 512", "BLOCK = 128")
    (out / ".base" / GELU).unlink()
    report = write_unit(version(gelu=4, norm=5), out)
    assert report.has_conflicts and ".base/kernels/gelu.py is missing" in report.files[0].detail
    assert "BLOCK = 128" in (out / GELU).read_text()


def test_a_broken_edit_is_told_with_its_place_and_changes_nothing(out: Path) -> None:
    edit(out, GELU, "def gelu(x, out)", "def gelu(out, x)")
    before = snapshot(out)
    with pytest.raises(EditError) as caught:
        write_unit(version(gelu=3, norm=6), out)
    assert caught.value.where is not None and caught.value.where.endswith("unit/kernels/gelu.py:8")
    assert "the signature of gelu changed" in str(caught.value)
    assert snapshot(out) == before


def test_a_merge_that_is_numerically_wrong_is_a_conflict(out: Path) -> None:
    edit(out, GELU, "second * 2", "second * 2.0")
    before = snapshot(out)
    seen = []

    def inspect(folder: Path, edited: Any) -> dict[str, str]:
        seen.append(((folder / GELU).read_text(), tuple(edited)))
        return {GELU: "gelu() is wrong at [0]: 1, expected 2"}

    report = write_unit(version(gelu=4, norm=6), out, inspect)
    assert seen[0][1] == (GELU,) and "x * 4" in seen[0][0] and "second * 2.0" in seen[0][0]
    assert report.has_conflicts and "expected 2" in report.files[0].detail
    after = snapshot(out)
    assert {path: after[path] for path in before} == before
    # The same of an edit that is only kept does not hold the new version up, but it is told.
    (out / f"{GELU}.new").unlink()
    report = write_unit(version(gelu=4, norm=7), out, inspect)
    assert not report.has_conflicts and not report.is_good
    assert next(file.problem for file in report.files if file.path == GELU).startswith("gelu() is wrong")
    assert "x * 7" in (out / "kernels/norm.py").read_text()


def git_merged(ours: bytes, theirs: bytes) -> bytes:
    """As git leaves a file that both branches changed."""
    return b"<<<<<<< HEAD\n" + ours + b"=======\n" + theirs + b">>>>>>> branch\n"


def test_one_generate_settles_what_git_left_in_the_lock_and_the_base(out: Path, tmp_path: Path) -> None:
    other = tmp_path / "other" / "unit"
    write_unit(version(gelu=3, norm=5), other)
    for folder, new, text in ((out, version(gelu=4, norm=5), "128"), (other, version(gelu=8, norm=5), "256")):
        path = GELU if folder == out else "kernels/norm.py"
        edit(folder, path, "BLOCK = 512", f"BLOCK = {text}")
        write_unit(new, folder)
    for path in (LOCK, f".base/{GELU}"):
        (out / path).write_bytes(git_merged((out / path).read_bytes(), (other / path).read_bytes()))
    # The person settled the kernel itself: with the other branch's arithmetic.
    (out / GELU).write_text((out / GELU).read_text().replace("x * 4", "x * 8"))
    (out / "kernels/norm.py").write_bytes((other / "kernels/norm.py").read_bytes())
    report = write_unit(version(gelu=8, norm=5), out)
    assert report.is_good
    assert (out / GELU).read_text() == KERNEL.format(name="gelu", first=8).replace("512", "128")
    assert "BLOCK = 256" in (out / "kernels/norm.py").read_text()
    assert (out / ".base" / GELU).read_text() == KERNEL.format(name="gelu", first=8)
    assert json.loads((out / LOCK).read_text()) and read_ledger(out) is not None


def test_markers_in_a_kernel_that_nobody_edited_are_settled_too(out: Path) -> None:
    sides = [version(gelu=first)[GELU] for first in (4, 8)]
    marked = git_merged(*(str(side).encode() for side in sides))
    (out / GELU).write_bytes(marked)
    (out / ".base" / GELU).write_bytes(marked)
    assert write_unit(version(gelu=8, norm=5), out).is_good
    assert snapshot(out) == bytes_of(version(gelu=8, norm=5))


def test_markers_in_an_edited_kernel_are_the_persons_to_settle(out: Path) -> None:
    edit(out, GELU, "BLOCK = 512", "<<<<<<< HEAD\nBLOCK = 1\n=======\nBLOCK = 2\n>>>>>>> branch")
    with pytest.raises(EditError, match="conflict markers are still in it"):
        write_unit(version(gelu=3, norm=6), out)


def test_ejected_files_are_never_touched(out: Path) -> None:
    lock = json.loads((out / LOCK).read_text())
    (out / LOCK).write_text(json.dumps({**lock, "ejected": [GELU]}))
    edit(out, GELU, "x * 3", "x * 3.0")
    mine = (out / GELU).read_text()
    report = write_unit(version(gelu=4, norm=6), out)
    assert outcome(report, GELU) is Outcome.EJECTED and report.is_good
    assert (out / GELU).read_text() == mine
    assert (out / ".base" / GELU).read_text() == KERNEL.format(name="gelu", first=4)
    assert json.loads((out / LOCK).read_text())["ejected"] == [GELU]
    write_unit(version(norm=6), out)
    assert (out / GELU).read_text() == mine


def test_a_file_saved_while_the_unit_is_written_is_not_lost(out: Path) -> None:
    edit(out, GELU, "NUM_WARPS = 4", "NUM_WARPS = 8")
    turns = []

    def inspect(folder: Path, edited: Any) -> dict[str, str]:
        if not turns:
            edit(out, "kernels/norm.py", "BLOCK = 512", "BLOCK = 64")
        turns.append(edited)
        return {}

    report = write_unit(version(gelu=4, norm=6), out, inspect)
    assert len(turns) == 2 and outcome(report, "kernels/norm.py") is Outcome.MERGED
    assert "BLOCK = 64" in (out / "kernels/norm.py").read_text()
    assert "x * 6" in (out / "kernels/norm.py").read_text()


def test_links_and_files_of_ones_own_stay(out: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (out / "link").symlink_to(tmp_path / "elsewhere")
    (out / "kernels/mine.py").write_text("mine\n")
    write_unit(version(gelu=4, norm=6), out)
    assert (out / "link").is_symlink() and (out / "kernels/mine.py").read_text() == "mine\n"
