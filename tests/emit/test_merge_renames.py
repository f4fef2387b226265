"""An edit goes with its kernel where that has another name now; where it fits nowhere it is set aside as ever."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from longhand.emit.unit.lock_file import LOCK
from longhand.emit.unit.threeway import Outcome
from longhand.emit.unit.writer import write_unit
from tests.emit.merge_units import KERNEL, bytes_of, edit, outcome, snapshot, version

GELU, SCALED = "kernels/gelu.py", "kernels/gelu_scale.py"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    folder = tmp_path / "unit"
    write_unit(version(gelu=3, norm=5), folder)
    edit(folder, GELU, "BLOCK = 512", "BLOCK = 128")
    return folder


def test_an_edit_moves_to_the_kernels_new_name_and_back(out: Path) -> None:
    lock = json.loads((out / LOCK).read_text())
    (out / LOCK).write_text(json.dumps({**lock, "tuned": {GELU: {"BLOCK": 128}}}))
    report = write_unit(version(gelu_scale=4, norm=5), out)
    assert report.is_good and outcome(report, GELU) is Outcome.MOVED
    (moved,) = (file for file in report.files if file.path == SCALED)
    assert (moved.outcome, moved.source) == (Outcome.MERGED, GELU)
    assert (out / SCALED).read_text() == KERNEL.format(name="gelu_scale", first=4).replace("512", "128")
    assert not (out / GELU).exists() and not (out / "kernels/aside").exists()
    assert json.loads((out / LOCK).read_text())["tuned"] == {SCALED: {"BLOCK": 128}}
    assert outcome(write_unit(version(gelu_scale=4, norm=5), out), SCALED) is Outcome.KEPT
    assert outcome(write_unit(version(gelu=3, norm=5), out), SCALED) is Outcome.MOVED
    assert (out / GELU).read_text() == KERNEL.format(name="gelu", first=3).replace("512", "128")


def test_of_several_new_kernels_it_is_the_one_whose_code_is_most_alike(out: Path) -> None:
    edit(out, GELU, "third = second * 2", "third = second + second")
    other = KERNEL.replace("second = first + 1", "second = first.exp()").replace("* 2", "** 4")
    files = version(gelu_scale=4, gelu_other=3, norm=5)
    text = other.format(name="gelu_other", first=3)
    files["kernels/gelu_other.py"] = files[".base/kernels/gelu_other.py"] = text
    write_unit(files, out)
    assert "third = second + second" in (out / SCALED).read_text()
    assert (out / "kernels/gelu_other.py").read_text() == text


def test_an_edit_that_is_wrong_in_the_kernel_that_looks_alike_is_set_aside(out: Path) -> None:
    inspected: list[Sequence[str]] = []

    def inspect(folder: Path, edited: Sequence[str]) -> dict[str, str]:
        inspected.append(edited)
        return {SCALED: "gelu_scale() is wrong"} if "128" in (folder / SCALED).read_text() else {}

    report = write_unit(version(gelu_scale=4, norm=5), out, inspect)
    assert inspected == [(SCALED,)] and report.is_good
    assert outcome(report, GELU) is Outcome.ASIDE and outcome(report, SCALED) is Outcome.NEW
    assert "BLOCK = 128" in (out / "kernels/aside/gelu.py").read_text()
    assert (out / SCALED).read_text() == KERNEL.format(name="gelu_scale", first=4)


@pytest.mark.parametrize("what", ["another kernel", "the same line", "the kernel is still there"])
def test_an_edit_stays_where_it_fits_nowhere(out: Path, what: str) -> None:
    new = version(gelu_scale=4, norm=5)
    if what == "another kernel":
        new = version(exp=3, norm=5)
        text = "def exp(x, out):\n    x.exp(out=out)\n\n\ndef reference(x):\n    return x.exp()\n"
        new["kernels/exp.py"] = new[".base/kernels/exp.py"] = text
    elif what == "the same line":
        edit(out, GELU, "first = x * 3", "first = 3 * x")
    else:
        new = version(gelu=3, gelu_scale=4, norm=5)
    mine = (out / GELU).read_bytes()
    report = write_unit(new, out)
    expected = Outcome.KEPT if what == "the kernel is still there" else Outcome.ASIDE
    assert outcome(report, GELU) is expected
    place = GELU if expected is Outcome.KEPT else "kernels/aside/gelu.py"
    found = snapshot(out)
    assert found[place] == mine
    assert all(
        found[path] == content
        for path, content in bytes_of(new).items()
        if path.startswith("kernels/") and path != GELU
    )
