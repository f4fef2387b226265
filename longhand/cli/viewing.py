"""`longhand view`: a unit's files and one of its kernels."""

from __future__ import annotations

import json
from pathlib import Path

import click

from longhand.cli import screen
from longhand.emit.unit.lock_file import read_lock


def view(folder: Path, kernel: str | None, *, is_json: bool) -> int:
    """Shows them; nothing of the unit runs."""
    read_lock(folder)
    if not is_json:
        screen.show_unit(folder, kernel)
        return 0
    files, text = screen.files_of(folder), screen.kernel_of(folder, kernel)
    click.echo(
        json.dumps(
            {
                "unit": str(folder),
                "files": dict(files),
                "kernel": {"path": text[0], "text": text[1]} if text else None,
            },
            indent=1,
        )
    )
    return 0
