"""`longhand handoff` and `longhand accept`."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import click

from longhand.cli import screen
from longhand.cli.annotations import show_findings
from longhand.cli.findings import of_judgements
from longhand.cli.styles import Style, report
from longhand.handoff.acceptance import accept as accept_edits
from longhand.handoff.writing import hand_off


def handoff(unit: Path, kernels: tuple[str, ...], out: Path, *, is_json: bool) -> int:
    """Writes the folder and tells where."""
    with screen.working(f"handing off {unit}") as show:
        made = hand_off(unit, kernels, out, tell=show)
    told = {"unit": str(unit), "folder": str(made.folder), "kernels": list(made.kernels)}
    report(json.dumps(told, indent=1)) if is_json else click.echo(str(made))
    return 0


def accept(folder: Path, unit: Path | None, *, installs: bool, style: Style) -> int:
    """Judges and shows; 1 if an edit is refused."""
    with screen.working(f"judging {folder}") as show:
        judgements = accept_edits(folder, unit, installs=installs, tell=show)
    show_findings(style, list(of_judgements(folder, judgements)))
    if style is Style.JSON:
        report(json.dumps([dataclasses.asdict(one) for one in judgements], indent=1))
    if style is Style.TEXT:
        for one in judgements:
            click.echo(str(one))
    return 1 if any(one.refusal for one in judgements) else 0
