"""Random edits, random changes, and writers that are killed: no edited line is lost, no unit is half written."""

from __future__ import annotations

import os
import pickle
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from longhand.emit.unit.threeway import Outcome
from longhand.emit.unit.writer import write_unit
from tests.emit.merge_units import bytes_of, snapshot, version


@pytest.fixture
def out(tmp_path: Path) -> Path:
    folder = tmp_path / "unit"
    write_unit(version(gelu=3, norm=5), folder)
    return folder


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
from longhand.emit.unit.writer import write_unit
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
