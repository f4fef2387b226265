"""Units that other versions wrote run here, and these versions write the same text.

generated/ was written by one pair of Python and torch; `make matrix` runs this with each of the others, in both
directions between the oldest and the newest, since the text is the same for all of them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from examples.gallery import ROOT, Entry, entries
from longhand.staleness.file_check import Staleness
from longhand.staleness.model_check import check

# Where the text must differ between versions: (unit, file). Nowhere so far.
DIFFERENT: frozenset[tuple[str, str]] = frozenset()
PATHS = ("attention_cpu", "gpt_train_cpu", "attention_cuda")

# Runs a unit's own check, with longhand out of reach.
ALONE = """
import runpy, sys
sys.modules["longhand"] = None
sys.path.insert(0, sys.argv.pop(1))
runpy.run_module(sys.argv.pop(1) + ".check", run_name="__main__", alter_sys=True)
"""


def _texts(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "longhand.lock" and "__pycache__" not in path.parts
    }


def _entry(path: str) -> Entry:
    return next(entry for entry in entries() if entry.path == path)


@pytest.mark.parametrize("path", PATHS)
def test_the_text_is_that_of_the_gallery(path, tmp_path):
    _entry(path).write(tmp_path / path)
    here, there = _texts(tmp_path / path), _texts(ROOT / path)
    differing = {(path, name) for name in here.keys() | there.keys() if here.get(name) != there.get(name)}
    assert differing == {pair for pair in DIFFERENT if pair[0] == path}


@pytest.mark.parametrize("path", ["attention_cpu", "gpt_train_cpu"])
def test_a_unit_of_other_versions_runs_alone(path):
    done = subprocess.run(
        [sys.executable, "-c", ALONE, str(ROOT), path],
        env=dict(os.environ, OMP_NUM_THREADS="1"),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_unit_of_other_versions_is_not_called_stale(tmp_path):
    folder = tmp_path / "attention_cpu"
    _entry("attention_cpu").write(folder)
    model = (folder / "model.py").read_text()
    older = model.replace("\n\n\n", "\n\n\n# As an older black laid it out.\n", 1)
    for path in ("model.py", ".base/model.py"):
        (folder / path).write_text(older)
    assert check(folder).staleness is Staleness.STALE
    lock = json.loads((folder / "longhand.lock").read_text())
    lock["versions"]["torch"] = "2.10.0"
    (folder / "longhand.lock").write_text(json.dumps(lock, indent=2))
    result = check(folder)
    assert result.staleness is Staleness.OTHER_VERSIONS
    assert any(text.startswith("torch 2.10.0, here ") for text in result.versions)
