"""`longhand build`: a folder or a wheel."""

from __future__ import annotations

import dataclasses
import json
import tempfile
from pathlib import Path

import click

from longhand.cli import screen
from longhand.cli.styles import report
from longhand.deploy.building import build as build_unit
from longhand.deploy.wheel import write_wheel


def build(
    folder: Path,
    out: Path | None,
    wheels: Path | None,
    levels: tuple[str, ...],
    archs: tuple[str, ...],
    sizes: tuple[str, ...],
    name: str,
    version: str,
    *,
    is_json: bool,
) -> int:
    """Builds and tells."""
    if out is None and wheels is None:
        raise click.UsageError("Say where: --out DIR, or --wheel DIR.")
    with (
        tempfile.TemporaryDirectory(prefix="longhand-") as scratch,
        screen.working(f"building {folder}") as show,
    ):
        built = build_unit(
            folder, out or Path(scratch) / "unit", levels, show, name=name, archs=archs, sizes=sizes
        )
        wheel = write_wheel(built, wheels, version) if wheels is not None else None
    if out is None:
        assert wheel is not None
        built = dataclasses.replace(built, folder=wheel)
    if is_json:
        facts: dict[str, object] = {
            "unit": str(folder),
            "out": str(out) if out else None,
            "wheel": str(wheel) if wheel else None,
        }
        facts |= {"name": built.name, "device": built.device, "built_for": built.levels}
        facts |= {"kernels": built.kernels, "left": built.left, "bytes": built.n_bytes}
        report(json.dumps(facts, indent=1))
        return 0
    click.echo(str(built))
    if out is not None and wheel is not None:
        click.echo(str(wheel))
    return 0
