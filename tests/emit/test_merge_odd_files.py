"""Merges of files as editors, file systems and git leave them: line ends, marks, tabs, long lines, links, no rights."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest

from longhand.emit.unit import writer
from longhand.emit.unit.contract import find_breaches
from longhand.emit.unit.lock_file import LOCK
from longhand.emit.unit.threeway import Outcome
from longhand.emit.unit.writer import write_unit
from longhand.errors import EditError, OutputError
from tests.emit.merge_units import KERNEL, bytes_of, edit, outcome, snapshot, version

GELU = "kernels/gelu.py"
NEXT = KERNEL.format(name="gelu", first=4)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    folder = tmp_path / "unit"
    write_unit(version(gelu=3, norm=5), folder)
    return folder


def test_an_editors_line_ends_stay(out: Path) -> None:
    edit(out, GELU, "BLOCK = 512", "BLOCK = 128")
    path = out / GELU
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert outcome(write_unit(version(gelu=4, norm=5), out), GELU) is Outcome.MERGED
    assert path.read_bytes() == NEXT.replace("512", "128").replace("\n", "\r\n").encode()


def test_a_checkout_with_other_line_ends_is_no_edit(out: Path) -> None:
    for path in out.rglob("*.py"):
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert write_unit(version(gelu=4, norm=5), out).is_good
    assert snapshot(out) == bytes_of(version(gelu=4, norm=5))


def test_edits_in_a_checkout_with_other_line_ends_are_merged(out: Path) -> None:
    edit(out, GELU, "BLOCK = 512", "BLOCK = 128")
    for path in out.rglob("*.py"):
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert outcome(write_unit(version(gelu=4, norm=5), out), GELU) is Outcome.MERGED
    assert (out / GELU).read_text() == NEXT.replace("512", "128")


def test_a_byte_order_mark_is_kept_and_breaks_nothing(out: Path) -> None:
    edit(out, GELU, "BLOCK = 512", "BLOCK = 128")
    (out / GELU).write_bytes(b"\xef\xbb\xbf" + (out / GELU).read_bytes())
    assert outcome(write_unit(version(gelu=4, norm=5), out), GELU) is Outcome.MERGED
    assert (out / GELU).read_bytes() == b"\xef\xbb\xbf" + NEXT.replace("512", "128").encode()


def test_tabs_and_very_long_lines_are_lines_like_others(out: Path) -> None:
    long = f"second * 2  # {'x' * 100_000}"
    edit(out, GELU, "second * 2", long)
    edit(out, GELU, "    out.copy_(third)", "    if True:\n    \tout.copy_(third)")
    assert outcome(write_unit(version(gelu=4, norm=5), out), GELU) is Outcome.MERGED
    merged = (out / GELU).read_text()
    assert long in merged and "\n    \tout.copy_(third)\n" in merged and "x * 4" in merged


def test_a_file_that_ends_without_a_line_end(out: Path) -> None:
    edit(out, GELU, "BLOCK = 512", "BLOCK = 128")
    (out / GELU).write_text((out / GELU).read_text().rstrip("\n"))
    assert outcome(write_unit(version(gelu=4, norm=5), out), GELU) is Outcome.MERGED
    assert (out / GELU).read_text() == NEXT.replace("512", "128")


def test_bytes_that_are_no_text_are_a_conflict(out: Path) -> None:
    edit(out, GELU, "BLOCK = 512", "BLOCK = 128")
    (out / GELU).write_bytes((out / GELU).read_bytes() + b"# \xff\n")
    before = (out / GELU).read_bytes()
    report = write_unit(version(gelu=4, norm=5), out)
    assert report.has_conflicts and "not text" in report.files[0].detail
    assert (out / GELU).read_bytes() == before


@pytest.mark.parametrize("is_edited", [False, True])
def test_what_a_link_points_to_is_never_written(out: Path, tmp_path: Path, is_edited: bool) -> None:
    shared = tmp_path / "shared.py"
    (out / GELU).rename(shared)
    (out / GELU).symlink_to(shared)
    if is_edited:
        shared.write_text(shared.read_text().replace("512", "128"))
    text = shared.read_text()
    write_unit(version(gelu=3, norm=6), out)
    assert (out / GELU).is_symlink(), "nothing is new for it"
    report = write_unit(version(gelu=4, norm=6), out)
    assert outcome(report, GELU) is (Outcome.MERGED if is_edited else Outcome.REPLACED)
    assert shared.read_text() == text
    assert (out / GELU).read_text() == (NEXT.replace("512", "128") if is_edited else NEXT)


def test_a_unit_behind_a_link_is_written_where_it_is(out: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(out)
    write_unit(version(gelu=4, norm=5), link)
    assert link.is_symlink() and (out / GELU).read_text() == NEXT


def test_a_full_or_read_only_disk_leaves_the_unit(out: Path, monkeypatch: Any) -> None:
    before = snapshot(out)

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(tempfile, "mkdtemp", refuse)
        with pytest.raises(OutputError, match="cannot be written: Permission denied"):
            write_unit(version(gelu=4, norm=5), out)
    with monkeypatch.context() as patch:
        patch.setattr(writer, "carry", refuse)
        with pytest.raises(OutputError, match="Nothing was changed"):
            write_unit(version(gelu=4, norm=5), out)
    with monkeypatch.context() as patch:
        patch.setattr("os.access", lambda *_: False)
        with pytest.raises(OutputError, match="is not writable"):
            write_unit(version(gelu=4, norm=5), out)
    assert snapshot(out) == before
    assert [path.name for path in out.parent.iterdir()] == ["unit"]


def test_a_unit_without_its_lock_is_told_from_a_folder_of_others(out: Path, tmp_path: Path) -> None:
    (out / LOCK).unlink()
    before = snapshot(out)
    with pytest.raises(OutputError, match=r"it was deleted\. Get longhand\.lock back"):
        write_unit(version(gelu=4, norm=5), out)
    shutil.rmtree(out / ".base")
    with pytest.raises(OutputError, match="longhand did not write it"):
        write_unit(version(gelu=4, norm=5), out)
    assert snapshot(out) == {path: text for path, text in before.items() if not path.startswith(".base")}


def test_a_heading_underlined_with_equal_signs_is_no_conflict_marker(out: Path) -> None:
    edit(out, GELU, "import torch\n", '"""\nHeading\n=======\n"""\nimport torch\n')
    assert outcome(write_unit(version(gelu=4, norm=5), out), GELU) is Outcome.MERGED


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_markers_are_told_with_their_line(out: Path, end: str) -> None:
    text = f"<<<<<<< HEAD{end}BLOCK = 1{end}======={end}BLOCK = 2{end}>>>>>>> branch"
    edit(out, GELU, "BLOCK = 512", text)
    with pytest.raises(EditError, match=r"unit/kernels/gelu\.py:4: git's conflict markers are still in it"):
        write_unit(version(gelu=4, norm=5), out)
    written = {GELU: str(version(gelu=3)[GELU])}
    (breach,) = find_breaches({GELU: text}, written)
    assert breach.line == 1
