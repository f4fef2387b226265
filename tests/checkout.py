"""A copy of the product with something added, used in a process of its own: how the pages "how to add" are held."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("capture", "lower", "schedule", "emit", "templates", "longhand")

Touched = Mapping[str, Mapping[str, str]]  # by file of the product: after this text, that one


def checkout_with(touched: Touched, folder: Path, added: Path | None = None) -> None:
    """A copy of the product with texts added to files that it has.

    Args:
        touched: Each text occurs once.
        folder: Where the copy is made.
        added: A tree of files that the product does not have.
    """
    for room in ROOMS:
        shutil.copytree(ROOT / room, folder / room, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    for path in sorted(added.rglob("*") if added is not None else ()):
        assert added is not None
        if path.is_file() and "__pycache__" not in path.parts:
            place = folder / path.relative_to(added)
            assert not place.exists(), place
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, place)
    for name, texts in touched.items():
        text = (folder / name).read_text(encoding="utf-8")
        for after, new in texts.items():
            assert text.count(after) == 1, (name, after)
            text = text.replace(after, after + new)
        (folder / name).write_text(text, encoding="utf-8")


def use(checkout: Path, program: str, out: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A program run with a copy of the product. It is told a folder."""
    (out / "use.py").write_text(program, encoding="utf-8")
    return subprocess.run(
        [sys.executable, "use.py", str(out)],
        cwd=out,
        env={**os.environ, "PYTHONPATH": str(checkout), "LONGHAND_VERIFY": "1", **environment},
        capture_output=True,
        text=True,
    )
