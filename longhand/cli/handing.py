"""`longhand handoff` and `longhand accept`."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import click

from longhand.cli import screen
from longhand.handoff.acceptance import accept as accept_edits
from longhand.handoff.writing import hand_off


def handoff(unit: Path, kernels: tuple[str, ...], out: Path) -> int:
    """Writes the folder and tells where."""
    with screen.working(f"handing off {unit}") as show:
        made = hand_off(unit, kernels, out, tell=show)
    click.echo(str(made))
    return 0


def accept(folder: Path, unit: Path | None, *, installs: bool, is_json: bool) -> int:
    """Judges and shows; 1 if an edit is refused."""
    with screen.working(f"judging {folder}") as show:
        found = accept_edits(folder, unit, installs=installs, tell=show)
    if is_json:
        click.echo(json.dumps([dataclasses.asdict(one) for one in found], indent=1))
    else:
        for one in found:
            click.echo(str(one))
    return 1 if any(one.refusal for one in found) else 0
