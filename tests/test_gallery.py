"""generated/ is what longhand writes today: regenerating changes no byte, with the lock or without."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from examples.gallery import ROOT, entries

REPOSITORY = Path(__file__).resolve().parent.parent
ENTRIES = entries()


def content(folder):
    """Every file's bytes; of the lock all but the versions of tools, which may differ from machine to machine."""
    found = {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }
    lock = json.loads(found["longhand.lock"])
    del lock["versions"]
    return {**found, "longhand.lock": lock}


def test_the_gallery_holds_the_listed_units_and_no_others():
    assert {str(path.parent.relative_to(ROOT)) for path in ROOT.rglob("longhand.lock")} == {
        e.path for e in ENTRIES
    }


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.path)
def test_regenerating_over_what_is_there_changes_nothing(entry, tmp_path):
    folder = tmp_path / Path(entry.path).name
    shutil.copytree(ROOT / entry.path, folder, ignore=shutil.ignore_patterns("__pycache__"))
    before = content(folder)
    entry.write(folder)
    assert content(folder) == before


@pytest.mark.parametrize("path", ["attention_cpu", "attention_cuda", "gpt_cpu"])
def test_another_process_with_another_hash_seed_writes_the_same_from_nothing(path, tmp_path):
    entry = next(entry for entry in ENTRIES if entry.path == path)
    folder = tmp_path / path
    program = (
        "import sys; from pathlib import Path; from examples.gallery import Entry;"
        f"Entry({entry.path!r}, {entry.factory!r}, {entry.device!r}).write(Path(sys.argv[1]))"
    )
    environment = dict(os.environ, PYTHONHASHSEED="12345", PYTHONPATH=str(REPOSITORY))
    subprocess.run([sys.executable, "-c", program, str(folder)], check=True, env=environment, cwd=REPOSITORY)
    assert content(folder) == content(ROOT / path)
