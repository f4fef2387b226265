"""What becomes of edits when a unit is written again: kept, merged, in conflict, set aside; never lost."""

from __future__ import annotations

import json
import os
import pickle
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from longhand.emit.lock import LOCK
from longhand.emit.merge_report import MergeReport, Outcome
from longhand.emit.writer import read_ledger, write_unit
from longhand.errors import EditError

Files = dict[str, str | bytes]

KERNEL = """import torch

# Tunables.
BLOCK = 512
NUM_WARPS = 4


def {name}(x, out):
    first = x * {first}

    second = first + 1

    third = second * 2

    out.copy_(third)


def reference(x):
    return (x * {first} + 1) * 2
"""


def unit(kernels: dict[str, str]) -> Files:
    """A unit of kernels that call nothing else."""
    names = sorted(kernels)
    imports = "".join(f"from .{name} import {name}\n" for name in names)
    files: Files = {
        "__init__.py": "from .model import run\n",
        "model.py": "from . import kernels\n\n\ndef run(x):\n"
        + "".join(f"    kernels.{n}(x, x)\n" for n in names),
        "kernels/__init__.py": imports,
        **{f"kernels/{name}.py": text for name, text in kernels.items()},
    }
    base: Files = {f".base/{path}": content for path, content in files.items()}
    lock = {"hashes": {}, "ledger": {}}
    return {**files, **base, LOCK: json.dumps(lock)}


def version(**first: object) -> Files:
    return unit({name: KERNEL.format(name=name, first=value) for name, value in first.items()})


def edit(out: Path, path: str, old: str, new: str) -> None:
    text = (out / path).read_text()
    assert old in text
    (out / path).write_text(text.replace(old, new, 1))


def snapshot(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def outcome(report: MergeReport, path: str) -> Outcome:
    return next(file.outcome for file in report.files if file.path == path)


def bytes_of(files: Files) -> dict[str, bytes]:
    return {path: text if isinstance(text, bytes) else text.encode() for path, text in files.items()}


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


# ---- random edits and changes -------------------------------------------------------------------------------------


def random_change(rng: random.Random, current: dict[str, int]) -> dict[str, int]:
    """Another version of the model: a kernel more or less, or other arithmetic in one."""
    changed = dict(current)
    for _ in range(rng.randint(1, 2)):
        kind = rng.random()
        if kind < 0.25 and len(changed) > 1:
            del changed[rng.choice(sorted(changed))]
        elif kind < 0.5:
            changed[rng.choice(["silu", "softmax", "gelu", "norm", "relu"])] = rng.randint(3, 9)
        else:
            changed[rng.choice(sorted(changed))] = rng.randint(3, 9)
    return changed


def random_edit(rng: random.Random, text: str, word: str) -> tuple[str, str]:
    """The text with one line more, or another line in the place of one; and that line."""
    lines = text.splitlines()
    bodies = [i for i, line in enumerate(lines) if line.startswith("    ") and "return" not in line]
    tunables = [i for i, line in enumerate(lines) if line[:1].isupper()]
    kind = rng.random()
    if kind < 0.3:
        place = rng.choice(tunables)
        lines[place] = f"{lines[place].split(' = ')[0]} = {rng.randint(1000, 9999)}  # {word}"
    elif kind < 0.6:
        place = rng.choice(bodies)
        lines[place] += f"  # {word}"
    else:
        place = rng.choice(bodies)
        lines.insert(place, f"    # {word}")
    return "".join(f"{line}\n" for line in lines), lines[place]


@pytest.mark.parametrize("seed", range(300))
def test_every_edited_line_is_somewhere_and_the_report_names_it(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    out = tmp_path / "unit"
    current = {"gelu": 3, "norm": 5, "silu": 4}
    write_unit(version(**current), out)
    edited: dict[str, list[str]] = {}
    for number in range(rng.randint(1, 4)):
        name = rng.choice(sorted(current))
        path = out / "kernels" / f"{name}.py"
        text, line = random_edit(rng, path.read_text(), f"edit {number}")
        path.write_text(text)
        edited.setdefault(f"kernels/{name}.py", []).append(f"edit {number}")
        assert line in text
    before = {path: (out / path).read_text() for path in edited}
    wanted = random_change(rng, current)
    report = write_unit(version(**wanted), out)
    for path in edited:
        (file,) = [file for file in report.files if file.path == path]
        kept = [line for line in before[path].splitlines() if line not in str(version(**current)[path])]
        if file.outcome is Outcome.CONFLICT:
            assert (out / path).read_text() == before[path]
            assert (out / f"{path}.new").read_text() == version(**wanted)[path]
            continue
        place = {
            Outcome.KEPT: path,
            Outcome.MERGED: path,
            Outcome.ASIDE: f"kernels/aside/{Path(path).name}",
        }[file.outcome]
        text = (out / place).read_text()
        assert all(line in text for line in kept)
        compile(text, path, "exec")
    if not report.has_conflicts:
        found = snapshot(out)
        for path, content in bytes_of(version(**wanted)).items():
            if path not in edited:
                assert found[path] == content


# ---- kill -9 ------------------------------------------------------------------------------------------------------

_WRITER = """
import sys, pickle, pathlib
from longhand.emit.writer import write_unit
old, new, out = pickle.load(open(sys.argv[1], "rb"))
print("ready", flush=True)
sys.stdin.readline()
while True:
    write_unit(new, pathlib.Path(out))
    write_unit(old, pathlib.Path(out))
"""


def test_killed_at_any_moment_the_old_unit_or_the_new_one_is_there(tmp_path: Path) -> None:
    rng = random.Random(0)
    out = tmp_path / "unit"
    old, new = version(gelu=3, norm=5), version(gelu=4, silu=6)
    write_unit(old, out)
    (out / "mine.txt").write_text("mine")
    (tmp_path / "job").write_bytes(pickle.dumps((old, new, str(out))))
    root = Path(__file__).resolve().parents[2]
    environment = dict(os.environ, PYTHONPATH=str(root))
    legal = [bytes_of(files) | {"mine.txt": b"mine"} for files in (old, new)]
    killed = 0
    while killed < 50:
        command = [sys.executable, "-c", _WRITER, str(tmp_path / "job")]
        child = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root
        )
        assert child.stdin is not None and child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        os.set_blocking(child.stdout.fileno(), False)
        child.stdin.write("go\n")
        child.stdin.flush()
        # Several forks would be slow: torch is imported once a child. One child is stopped and looked at many times.
        for _ in range(10):
            time.sleep(rng.uniform(0.001, 0.02))
            child.send_signal(signal.SIGSTOP)
            os.waitpid(child.pid, os.WUNTRACED)
            assert snapshot(out) in legal
            killed += 1
            child.send_signal(signal.SIGCONT)
        child.kill()
        child.wait()
        child.stdin.close()
        child.stdout.close()
        assert snapshot(out) in legal
        report = write_unit(new, out)
        assert not report.has_conflicts and snapshot(out) == legal[1]
        assert sorted(path.name for path in tmp_path.iterdir()) == ["job", "unit"]


def test_a_run_that_died_between_two_renames_is_put_right(out: Path) -> None:
    pid = subprocess.Popen([sys.executable, "-c", ""])
    pid.wait()
    left = out.parent / f".unit.longhand-{pid.pid}-abc.old"
    out.rename(left)
    (out.parent / f".unit.longhand-{pid.pid}-abc").mkdir()
    write_unit(version(gelu=3, norm=5), out)
    assert snapshot(out) == bytes_of(version(gelu=3, norm=5))
    assert [path.name for path in out.parent.iterdir()] == ["unit"]
