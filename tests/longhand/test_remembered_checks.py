"""A check is remembered only as long as nothing that it read has changed; and then it imports nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

MODEL = """
from pathlib import Path

import torch
from torch import nn

from parts import WIDTH


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = float(Path("scale.txt").read_text())
        self.linear = nn.Linear(WIDTH, 4)

    def forward(self, x):
        return torch.softmax(self.linear(x) * self.scale, -1)


def make():
    return Net().eval(), (torch.zeros(3, WIDTH),)
"""
FILES = {"net.py": MODEL, "parts.py": "WIDTH = 6\n", "scale.txt": "0.5\n"}
CHECK = ("check", "unit", "--json")


def longhand(project: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own; what it imports of torch is told on its last line of stderr."""
    program = (
        "import sys\nfrom longhand import cli\ncode = cli.run(sys.argv[1:])\n"
        "print('torch' in sys.modules, file=sys.stderr)\nsys.exit(code)"
    )
    given = {"LONGHAND_TRUST": "1", "LONGHAND_CACHE_DIR": str(project.parent / "cache"), **variables}
    environment = {**os.environ, **given}
    del environment["PYTEST_CURRENT_TEST"]  # another one in each test
    return subprocess.run(
        [sys.executable, "-c", program, *words], cwd=project, env=environment, capture_output=True, text=True
    )


def answer(done: subprocess.CompletedProcess[str]) -> tuple[int, bool, bool]:
    """(exit code, whether it was remembered, whether torch was imported)."""
    (unit,) = json.loads(done.stdout)["units"]
    return done.returncode, unit["remembered"], done.stderr.split()[-1] == "True"


REMEMBERED, CURRENT, STALE = (0, True, False), (0, False, True), (1, False, True)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model and its unit, checked once."""
    folder = tmp_path_factory.mktemp("remembered") / "project"
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text)
    done = longhand(folder, "generate", "net:make", "--out", "unit")
    assert done.returncode == 0, done.stderr
    assert answer(longhand(folder, *CHECK)) == CURRENT
    return folder


@pytest.fixture
def memory(project: Path) -> Iterator[Path]:
    """The one entry; it and the project's files are put back, their times too."""
    (entry,) = (project.parent / "cache/checks").iterdir()
    paths = [entry, *(path for path in sorted(project.rglob("*")) if path.is_file())]
    kept = {path: (path.read_bytes(), path.stat()) for path in paths}
    yield entry
    for path, (content, status) in kept.items():
        path.write_bytes(content)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def test_a_second_check_imports_nothing(project: Path, memory: Path) -> None:
    assert answer(longhand(project, *CHECK)) == REMEMBERED
    for path in project.glob("*.*"):  # the same content, written again
        path.write_bytes(path.read_bytes())
    assert answer(longhand(project, *CHECK)) == REMEMBERED
    assert answer(longhand(project, *CHECK, COLUMNS="70", OLDPWD="/")) == REMEMBERED


@pytest.mark.parametrize(
    ("file", "change", "expected"),
    [
        ("net.py", lambda text: text.replace("softmax", "log_softmax"), STALE),
        ("net.py", lambda text: text + "\n# a remark\n", CURRENT),
        ("parts.py", lambda text: text.replace("6", "7"), STALE),
        ("unit/model.py", lambda text: text.replace("import torch\n", "import torch  # mine\n", 1), CURRENT),
    ],
    ids=["the model", "a remark", "what the model imports", "an edit"],
)
def test_what_was_read_has_changed(
    project: Path, memory: Path, file: str, change: Callable[[str], str], expected: tuple[int, bool, bool]
) -> None:
    path = project / file
    text = path.read_text()
    path.write_text(change(text))
    assert path.read_text() != text
    assert answer(longhand(project, *CHECK)) == expected


def test_what_else_it_rests_on_has_changed(project: Path, memory: Path) -> None:
    assert answer(longhand(project, *CHECK, "--again")) == CURRENT
    assert answer(longhand(project, *CHECK, MODELS_OWN_VARIABLE="1")) == CURRENT
    assert answer(longhand(project, *CHECK)) == CURRENT  # that one was remembered last
    memory.write_text(memory.read_text().replace('"torch": "', '"torch": "9'))
    assert answer(longhand(project, *CHECK)) == CURRENT


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b'{"files": {"/": 3}}'])
def test_a_damaged_memory_is_none(project: Path, memory: Path, content: bytes) -> None:
    memory.write_bytes(content)
    assert answer(longhand(project, *CHECK)) == CURRENT
    assert answer(longhand(project, *CHECK)) == REMEMBERED  # though its old memory was read, too


def test_only_current_is_remembered(project: Path, memory: Path) -> None:
    """What the model reads has changed: that is noticed, and not remembered."""
    (project / "scale.txt").write_text("0.25\n")
    assert answer(longhand(project, *CHECK)) == STALE
    assert answer(longhand(project, *CHECK)) == STALE


def test_what_is_written_while_it_compares_is_not_remembered(project: Path, memory: Path) -> None:
    later = time.time_ns() + 10**12
    memory.unlink()
    os.utime(project / "scale.txt", ns=(later, later))
    assert answer(longhand(project, *CHECK)) == CURRENT
    assert answer(longhand(project, *CHECK)) == CURRENT


def test_without_trust_nothing_is_asked_of_the_memory(project: Path, memory: Path) -> None:
    assert answer(longhand(project, *CHECK, LONGHAND_TRUST="")) == (4, False, False)


def test_a_cache_of_somebody_elses_is_no_obstacle(project: Path, memory: Path) -> None:
    (project.parent / "open").mkdir(exist_ok=True)
    (project.parent / "open").chmod(0o777)
    for _ in range(2):
        assert answer(longhand(project, *CHECK, LONGHAND_CACHE_DIR=str(project.parent / "open"))) == CURRENT
